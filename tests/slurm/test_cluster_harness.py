"""The harness itself: nothing is left of a cluster, however its owner ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from slurm_cluster import ClusterUnavailable, require_slurm, wait_until

OWNER = """
import sys, time
sys.path[:0] = {folders!r}
from slurm_cluster import cluster
with cluster() as running:
    job = running.sbatch("-p", "cpu", script="#!/bin/sh\\nsleep 300 & setsid sleep 300\\n")
    running.wait_for_state(job.id, "RUNNING")
    print(running.root, flush=True)
    {ending}
    time.sleep(300)
"""


@pytest.fixture(autouse=True)
def _needs_slurm() -> None:
    try:
        require_slurm()
    except ClusterUnavailable as missing:
        pytest.skip(f"SLURM TESTS SKIPPED: {missing}")


def processes_of(root: str) -> list[str]:
    """Daemons of that cluster, their steps, and jobs that run in its folder."""
    found = []
    for process in psutil.process_iter():
        try:
            words = " ".join(process.cmdline())
            if root in words or root in str(process.cwd()):
                found.append(f"{process.pid} {words}")
        except psutil.Error:
            continue
    return found


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.parametrize("ending", ["SIGKILL", "an exception"])
def test_however_the_owner_ends_nothing_of_the_cluster_is_left(ending: str) -> None:
    line = "raise RuntimeError" if ending == "an exception" else "pass"
    here = Path(__file__).parent
    folders = [str(here), str(here.parent / "support")]
    text = OWNER.format(folders=folders, ending=line)
    owner = subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert owner.stdout is not None
    root = owner.stdout.readline().strip()
    assert root
    if ending == "SIGKILL":
        assert processes_of(root)
        owner.kill()
    owner.wait()
    wait_until(lambda: not Path(root).exists(), "the cluster's folder is gone", 60)
    wait_until(lambda: processes_of(root) == [], "its processes are gone", 60)


def test_without_slurm_the_reason_names_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ClusterUnavailable, match="make slurm"):
        require_slurm()


def test_without_root_the_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterUnavailable, match="needs root"):
        require_slurm()
