"""Faults on a real scheduler while jobs come in, for a quarter of a minute: every rule holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("BERTH_CHAOS"),
        reason="NOT RUN WITHOUT BERTH_CHAOS=1: its rules say how fast things are well again",
    ),
]
FAULTS = "killed,answers corrupted,disk full,controller restarted,switched off"


@pytest.mark.parametrize(
    "scheduler",
    [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("slurm", "flux")],
)
def test_no_rule_is_broken_under_faults(tmp_path: Path, scheduler: str) -> None:
    done = subprocess.run(
        [
            sys.executable, "-m", "chaos", "--on", scheduler, "--seconds", "12", "--seed", "1",
            "--faults", FAULTS, "--gap", "1", "2", "--longest", "1.5", "--deadline-ms", "200",
            "--history", tmp_path / "history.jsonl",
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )  # fmt: skip
    if done.returncode == 2 and "SKIPPED" in done.stdout:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "none violated" in done.stdout
