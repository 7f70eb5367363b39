"""Whatever doctor finds wrong, it says what to do about it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.plugin.doctor.examine import _guarded
from berth.plugin.doctor.findings import Finding, Status

PLUGIN = Path(__file__).parents[3] / "plugin"
FILES = [path for path in sorted(PLUGIN.rglob("*.py")) if "Finding(" in path.read_text()]


def findings_of(path: Path) -> Iterator[ast.Call]:
    """Where the file makes a Finding."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Finding":
            yield node


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PLUGIN)))
def test_every_finding_that_is_not_well_has_a_remedy(path: Path) -> None:
    for made in findings_of(path):
        words = [ast.unparse(word) for word in made.args]
        unpacked = any(isinstance(word, ast.Starred) for word in made.args)
        if unpacked or words[1:2] == ["Status.OK"]:
            continue
        assert len(made.args) + len(made.keywords) == 4, f"{path.name}:{made.lineno}: no remedy"


def test_a_file_that_cannot_be_read_is_a_finding_with_a_remedy(tmp_path: Path) -> None:
    def look() -> Iterator[Finding]:
        (tmp_path / "gone").read_text()
        yield Finding("x", Status.OK, "never")

    (found,) = _guarded("x", look)
    assert found.status is Status.FAIL
    assert str(tmp_path / "gone") in found.text
    assert found.advice
