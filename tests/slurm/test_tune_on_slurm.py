"""On a real Slurm: workers of a tune are an array; one that is killed costs its own trial."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from slurm_cluster import Cluster, wait_until

SITE = """schema = "berth.site/1"
[policy]
objective = "fastest"
[[candidates]]
name = "cpu"
platform = "rome-7742"
partition = "cpu"
nodes = 1
[[candidates]]
name = "gpu"
platform = "h100-80gb"
partition = "gpu"
gres = "gpu"
nodes = 1
gpus_per_node = 1
cores_per_node = 8
[candidates.translation]
gpus = 1
"""
TRIALS = 6


def jobs(path: Path) -> Path:
    random = np.random.default_rng(1)
    lines = ["submit_s,user,cores,seconds@rome-7742,seconds@h100-80gb"]
    for submit in np.sort(random.uniform(0, 8 * 86400, 60)):
        cpu = random.lognormal(8, 1)
        lines.append(f"{submit:.0f},u{random.integers(3)},16,{cpu:.0f},{cpu / 5:.0f}")
    path.write_text("\n".join(lines))
    return path


@pytest.mark.slow
def test_workers_on_slurm_finish_a_tune_when_one_is_killed(slurm: Cluster) -> None:
    folder = slurm.work / "tune"
    site = slurm.work / "tune.toml"
    site.write_text(SITE)
    berth = str(Path(sys.executable).with_name("berth"))
    words = [
        berth, "replay", "tune", str(jobs(slurm.work / "jobs.csv")), "--site", str(site),
        "--folder", str(folder), "--on", "slurm:cpu", "--workers", "2", "--trials", str(TRIALS),
        "--parameters", "weights.wait", "--json",
    ]  # fmt: skip
    with subprocess.Popen(
        words, env={**os.environ, **slurm.environment}, cwd=slurm.work, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as running:  # fmt: skip

        def workers() -> list[str]:
            found = slurm.run("squeue", "-h", "-r", "-t", "R", "-o", "%i").stdout.split()
            return [one for one in found if re.fullmatch(r"\d+_\d+", one)]

        wait_until(lambda: running.poll() is not None or len(workers()) == 2, "both work", 60)
        killed = workers()
        assert len(killed) == 2
        slurm.run("scancel", "--signal=KILL", "--full", killed[0])
        out, said = running.communicate()
    assert running.returncode == 0, said
    trials = json.loads(out)["trials"]
    assert trials["done"] + trials["stopped_early"] >= TRIALS
    assert trials["failed"] <= 1
    assert (folder / "report.html").stat().st_size > 10_000
