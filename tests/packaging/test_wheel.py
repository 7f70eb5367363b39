"""The wheel, built and run from a fresh environment: nothing it needs is left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with only the wheel in it; third-party packages by path.

    It is built from a copy, where no other test makes or removes files meanwhile.

    The dependencies are those of this environment (as plain entries of sys.path, so that its
    editable Berth is not seen): a fresh download would test the registry, not the wheel.
    """
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for room in ("pilot", "predictor", "policies", "plugin"):
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    built = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source],
        check=False,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("berth-*.whl")
    environment = folder / "env"
    venv.create(environment, with_pip=False)
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", environment / "bin/python", "install",
         "--quiet", "--no-deps", "--no-index", wheel],
        check=True,
    )  # fmt: skip
    site = environment / sysconfig.get_path("purelib", vars={"base": "."})
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(libraries) + "\n")
    return environment


def run(fresh: Path, *arguments: str, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [fresh / "bin" / arguments[0], *arguments[1:]],
        cwd=cwd,
        env=environment | {"BERTH_CACHE": str(cwd / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_command_comes_from_the_wheel(fresh: Path, tmp_path: Path) -> None:
    where = run(fresh, "python", "-c", "import berth.plugin as p; print(p.__file__)", cwd=tmp_path)
    assert where.startswith(str(fresh))
    assert "pilot" in run(fresh, "berth", "--help", cwd=tmp_path)


EVERY_HELP = """
import contextlib, io
import berth.plugin.cli as cli
from berth.plugin.cli.tree import COMMANDS, PILOT
for words in [[name] for name in COMMANDS] + [["pilot", name] for name in PILOT.commands]:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        cli.main([*words, "--help"])
    assert "Usage" in shown.getvalue(), words
    print(*words)
"""


def test_every_command_has_help_in_the_wheel(fresh: Path, tmp_path: Path) -> None:
    """In one process: each start would import the same again."""
    named = run(fresh, "python", "-c", EVERY_HELP, cwd=tmp_path).splitlines()
    assert {"place", "predict", "serve", "pilot run"} <= set(named)


DATA = (
    ("berth.plugin.slurm", "job_submit.lua"),
    ("berth.pilot", "kernels/*.c"),
    ("berth.predictor", "bundles/default/*.onnx"),
    ("berth.predictor", "bundles/default/manifest.json"),
    ("berth.predictor", "bundles/mig-slices/*.json"),
    ("berth.predictor.hardware", "platforms/*.json"),
)


def test_data_files_travel_with_the_wheel(fresh: Path, tmp_path: Path) -> None:
    program = (
        "import importlib, pathlib\n"
        f"for package, pattern in {DATA!r}:\n"
        "    home = pathlib.Path(importlib.import_module(package).__file__).parent\n"
        "    print(len(list(home.glob(pattern))), package, pattern)"
    )
    lines = run(fresh, "python", "-c", program, cwd=tmp_path).splitlines()
    assert len(lines) == len(DATA)
    assert [line for line in lines if line.startswith("0 ")] == []
