"""The rooms: every folder is packaged, imports run one way, serving stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("pilot", "predictor", "policies", "plugin")
HEAVY = ("torch", "xgboost", "pandas", "sklearn", "pyarrow", "onnxmltools")


def python_folders() -> set[str]:
    folders = {path.parent for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    return {str(folder.relative_to(ROOT)) for folder in folders}


def test_every_folder_with_python_is_in_the_wheel() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    expected = {f"berth.{folder.replace('/', '.')}": folder for folder in python_folders()}
    assert set(setuptools["packages"]) == set(expected)
    assert setuptools["package-dir"] == expected


def test_every_room_says_what_it_is_for() -> None:
    for folder in python_folders():
        init = ROOT / folder / "__init__.py"
        assert init.is_file(), f"{folder} has no __init__.py"
        assert init.read_text().lstrip().startswith('"""'), f"{folder} does not say what it is for"


def test_a_class_name_is_used_once() -> None:
    places: dict[str, list[str]] = {}
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(str(path.relative_to(ROOT)))
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert twice == {}


def test_imports_run_one_way() -> None:
    lint = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def modules_that_serve() -> list[str]:
    names = []
    for folder in sorted(python_folders()):
        if folder.startswith(("predictor/learning", "plugin/pictures")):
            continue
        for path in sorted((ROOT / folder).glob("*.py")):
            if path.stem != "env":  # Alembic's environment runs only inside a migration
                stem = "" if path.stem == "__init__" else f".{path.stem}"
                names.append(f"berth.{folder.replace('/', '.')}{stem}")
    return [name for name in names if ".migrations" not in name and ".alembic" not in name]


def test_nothing_that_serves_imports_a_training_library() -> None:
    program = (
        "import importlib, sys\n"
        f"for name in {modules_that_serve()!r}:\n"
        "    importlib.import_module(name)\n"
        f"print(*[m for m in {HEAVY!r} if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd="/", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


@pytest.mark.parametrize("pattern", ["*.py", "*.lua", "*.c", "*.md", "*.toml"])
def test_no_file_names_a_machine_of_the_authors(pattern: str) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if tracked.returncode != 0:
        pytest.skip("not a git checkout")
    forbidden = ["/" + "work/", "/" + "root/", "/" + "farm/"]
    for name in tracked.stdout.split():
        path = ROOT / name
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert not any(word in text for word in forbidden), name
