"""`make audit` passes only where what is installed was really looked up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

AUDIT = Path(__file__).resolve().parents[2] / "deploy" / "audit"
FINE = {"name": "numpy", "version": "2.0", "vulns": []}
OWN = {"name": "berth", "version": "1", "skip_reason": "Dependency not found on PyPI"}
BROKEN = {
    "name": "left",
    "version": "1.0",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"], "aliases": [], "description": "x"}],
}
UNKNOWN = {"name": "numpy", "skip_reason": "Dependency not found on PyPI and could not be audited"}


def audited(tmp_path: Path, said: str, problem: str = "", status: int = 0) -> tuple[int, str]:
    """Status and words of the audit where pip-audit says that."""
    program = tmp_path / "pip_audit.py"
    program.write_text(
        f"import sys\nsys.stdout.write({said!r})\nsys.stderr.write({problem!r})\n"
        f"sys.exit({status})\n"
    )
    words = [sys.executable, str(AUDIT), sys.executable, str(program)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def document(*dependencies: dict[str, Any]) -> str:
    return json.dumps({"dependencies": dependencies, "fixes": []})


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        (document(FINE, OWN), 0, "1 packages looked up, 0 advisories"),
        (document(FINE, BROKEN), 1, "left 1.0: PYSEC-1; fixed in 1.1"),
        (document(FINE, {**UNKNOWN, "name": "mine"}), 0, "the service does not know them: mine"),
        (document(UNKNOWN, OWN), 2, "cannot be reached from here: nothing was checked"),
        ("", 2, "cannot be reached from here: nothing was checked"),
        ("[]", 2, "cannot be reached from here: nothing was checked"),
    ],
)
def test_the_audit_says_what_it_looked_up(
    tmp_path: Path, said: str, status: int, words: str
) -> None:
    found = audited(tmp_path, said)
    assert found[0] == status
    assert words in found[1]


def test_what_pip_audit_died_of_is_passed_on_in_a_line(tmp_path: Path) -> None:
    status, words = audited(tmp_path, "", "trace\nConnectionError: no route\n", 1)
    assert status == 2
    assert words.count("\n") == 1
    assert "ConnectionError: no route" in words
