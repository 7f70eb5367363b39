"""Nothing is lost, doubled, refused or misplaced, whatever call fails; and bugs are found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from simulator.planted import FOCUS, PLANTS, planted
from simulator.run import simulate

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """As ``make simulate`` does."""
    return subprocess.run(
        [sys.executable, "-m", "simulator", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
    )


def test_a_thousand_submissions_with_faults() -> None:
    done = run("--seed", "1", "--count", "1000", "--world", "500")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1000 submissions" in done.stdout


@pytest.mark.slow
def test_eight_thousand_submissions_with_faults() -> None:
    done = run("--seed", "1000", "--count", "8000")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_hundred_login_hosts_share_one_store() -> None:
    done = run("--seed", "77", "--count", "2000", "--world", "2000", "--hosts", "100")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_seed_decides_all_that_happens() -> None:
    first, second = (simulate(11, 150) for _ in range(2))
    assert first.faults == second.faults
    assert first.counts == second.counts


QUICK = ("answers go out before they are in the journal", "Lua: the exchange may take a second")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in PLANTS]
)
def test_a_bug_put_in_on_purpose_is_found(name: str) -> None:
    with planted(name):
        for seed in range(500, 540):
            if simulate(seed, 600, focus=FOCUS.get(name)).violations:
                return
    pytest.fail(f"not found: {name}")
