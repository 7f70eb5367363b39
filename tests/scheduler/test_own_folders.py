"""No scheduler is known outside of its own folder: neither by its name nor by an import."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.plugin.scheduler import SCHEDULERS

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("predictor", "policies", "plugin", "lab")


@functools.cache
def modules() -> list[tuple[Path, set[object], set[str]]]:
    """Every module outside of the schedulers' folders in whose text a scheduler's name stands: its
    constants and what it imports."""
    own = [ROOT / "plugin" / name for name in SCHEDULERS.own()]
    found = []
    for path in (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))):
        if not any(folder in path.parents for folder in own):
            text = path.read_text(encoding="utf-8")
            if not any(name in text for name in SCHEDULERS.own()):
                continue
            tree = ast.parse(text)
            constants = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
            found.append((path, constants, set(imported(tree))))
    return found


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("name", SCHEDULERS.own())
def test_a_schedulers_name_stands_in_its_own_folder_only(name: str) -> None:
    room = f"berth.plugin.{name}"
    for path, constants, imports in modules():
        assert name not in constants, path
        assert not any(f"{module}.".startswith(f"{room}.") for module in imports), path


def test_the_schedulers_do_not_know_each_other() -> None:
    for one in SCHEDULERS.own():
        for path in sorted((ROOT / "plugin" / one).rglob("*.py")):
            others = [f"berth.plugin.{name}" for name in SCHEDULERS.own() if name != one]
            found = list(imported(ast.parse(path.read_text(encoding="utf-8"))))
            assert not any(f"{m}.".startswith(f"{o}.") for m in found for o in others), path
