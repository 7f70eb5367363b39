"""Commands that read the store import no more than they use: the start is most of their time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from empty_stores import open_store

HEAVY = (
    "alembic",
    "berth.plugin.daemon",
    "berth.plugin.scheduler",
    "berth.plugin.site.load",
    "berth.plugin.users.client",
    "berth.policies.decide",
    "berth.predictor",
    "numpy",
    "onnxruntime",
    "psycopg",
    "pydantic",
    "sqlalchemy.dialects.postgresql",
)


@pytest.fixture(scope="module")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("light") / "store.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.mark.parametrize(
    "words",
    [
        ["jobs", "decisions"],
        ["jobs", "decisions", "--user", "alice"],
        ["jobs", "outcomes"],
        ["site", "store", "prune", "--older-than-days", "90"],
    ],
    ids=" ".join,
)
def test_it_imports_neither_the_decider_nor_the_other_database(
    words: list[str], store_path: Path, tmp_path: Path
) -> None:
    program = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from berth.plugin.cli import main\n"
        "from berth.plugin import site_file\n"
        f"site_file.SITE_FILE = Path({str(tmp_path / 'no.toml')!r})\n"
        f"main({[*words, '--store', str(store_path)]!r})\n"
        f"print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
