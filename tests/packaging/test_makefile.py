"""`make help` names every target that is not a file, and each benchmark finds what it imports."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import nightly

ROOT = Path(__file__).resolve().parents[2]
IMPORT_ALL = """
import runpy, sys
from pathlib import Path
root = Path(sys.argv[1])
before = list(sys.path)
for path in sorted((root / "benchmarks").glob("*.py")):
    sys.path[:] = [str(path.parent), *before]
    runpy.run_path(str(path), run_name="imported")
    for name, module in list(sys.modules.items()):  # the next one finds its own
        file = getattr(module, "__file__", None) or ""
        if file.startswith((f"{root}/tests/", f"{root}/lab/", f"{root}/benchmarks/")):
            del sys.modules[name]
    print(path.name)
"""
"""Each benchmark as if it had been started by its path."""


def test_help_and_phony_name_the_same_targets() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    (phony,) = re.findall(r"^\.PHONY:(.*)$", text, re.MULTILINE)
    helped = re.findall(r"^([a-z-]+):.*##", text, re.MULTILINE)
    assert sorted(phony.split()) == sorted(helped)


def test_files_that_recipes_run_are_there() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"\b(?:tests|benchmarks|deploy)/[\w./-]+", text)
    assert len(named) > 8
    assert [name for name in named if not (ROOT / name.rstrip(".")).exists()] == []


def test_modules_that_are_mutated_are_there() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    (listed,) = re.findall(r"^MUTATED := (.*)$", text, re.MULTILINE)
    named = re.findall(r"\$\(addprefix (\S+),([^)]*)\)", listed)
    modules = [f"{folder}{name}" for folder, names in named for name in names.split()]
    assert len(modules) > 8
    assert [name for name in modules if not (ROOT / name).exists()] == []


def test_the_nightly_checks_are_targets_and_go_on_after_a_failure() -> None:
    phony = re.search(r"^\.PHONY:((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert set(nightly.TARGETS) <= set(phony[1].split())
    assert [status for _, _, status in nightly.run(["no-such-target", "help"])] == [2, 0]
    lines = nightly.table([("soak", 61.4, 0), ("fuzz", 5.0, 2)]).splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["soak", "61", "passed"],
        ["fuzz", "5", "FAILED"],
    ]


def reasons() -> Iterator[tuple[str, str]]:
    """Each place in the tests where one is skipped, and its reason as it is written there."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call):
                name = ast.unparse(call.func)
                if name in ("pytest.skip", "pytest.importorskip") or "mark.skip" in name:
                    yield f"{path.relative_to(ROOT)}:{call.lineno}", ast.unparse(call)


def test_each_reason_to_skip_a_test_has_one_target_where_it_is_not_skipped() -> None:
    phony = re.search(r"^\.PHONY:((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert set(nightly.NOT_SKIPPED_IN) <= {"test", *nightly.TARGETS} & set(phony[1].split())
    found = dict(reasons())
    table = {x: target for target, rows in nightly.NOT_SKIPPED_IN.items() for x in rows}
    targets = {
        place: {target for expression, target in table.items() if re.search(expression, reason)}
        for place, reason in found.items()
    }
    assert {p: (found[p], where) for p, where in targets.items() if len(where) != 1} == {}
    assert [x for x in table if not any(re.search(x, reason) for reason in found.values())] == []


@pytest.mark.slow
def test_every_benchmark_finds_what_it_imports(tmp_path: Path) -> None:
    pytest.importorskip("xgboost", reason="needs the extra `train`")
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, ROOT],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == len(list((ROOT / "benchmarks").glob("*.py")))
