"""No scheduler is known outside of its own folder: neither by its name nor by an import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.plugin.scheduler import SCHEDULERS

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("predictor", "policies", "plugin", "lab")


def modules() -> Iterator[tuple[Path, ast.Module]]:
    """Every module outside of the schedulers' folders."""
    own = [ROOT / "plugin" / name for name in SCHEDULERS.own()]
    for path in (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))):
        if not any(folder in path.parents for folder in own):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("name", SCHEDULERS.own())
def test_a_schedulers_name_stands_in_its_own_folder_only(name: str) -> None:
    for path, tree in modules():
        constants = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
        assert name not in constants, path
        room = f"berth.plugin.{name}"
        assert not any(f"{m}.".startswith(f"{room}.") for m in imported(tree)), path


def test_the_schedulers_do_not_know_each_other() -> None:
    for one in SCHEDULERS.own():
        for path in sorted((ROOT / "plugin" / one).rglob("*.py")):
            others = [f"berth.plugin.{name}" for name in SCHEDULERS.own() if name != one]
            found = list(imported(ast.parse(path.read_text(encoding="utf-8"))))
            assert not any(f"{m}.".startswith(f"{o}.") for m in found for o in others), path
