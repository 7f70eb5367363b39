"""Control groups of jobs that have ended, as files: whole ones, and faulty ones by a seed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from pathlib import Path

STATS = {
    "memory.peak": "123456789\n",
    "memory.stat": "anon 4096\nfile 8192\nkernel 100\nshmem 4096\n",
    "memory.events": "low 0\nhigh 0\nmax 3\noom 0\noom_kill 1\n",
    "cpu.stat": "usage_usec 61000000\nuser_usec 60000000\nsystem_usec 1000000\nnr_periods 0\n",
    "io.stat": "8:0 rbytes=1000 wbytes=200 rios=1 wios=2 dbytes=0 dios=0\n259:0 rbytes=24\n",
    "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000000\nfull total=1\n",
    "memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=3000000\n",
    "io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=4000000\n",
}


def plant(root: Path, job: str = "7", stats: Mapping[str, str] = STATS) -> Path:
    """Make the control group of a Slurm job below ``root``; return its folder."""
    group = root / "system.slice" / "slurmstepd.scope" / f"job_{job}"
    group.mkdir(parents=True)
    (root / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    for name, text in stats.items():
        (group / name).write_text(text)
    return group


def plant_faulty(root: Path, seed: int) -> None:
    """Make a tree with faults that the seed draws: absent, empty, huge, binary, wrong kinds."""
    draw = random.Random(seed)  # noqa: S311 (drawn anew by its seed)
    group = plant(root)
    for name in STATS:
        _spoil(group / name, draw)
    if draw.random() < 0.1:
        (root / "cgroup.controllers").unlink()
    if draw.random() < 0.1:
        shutil.rmtree(group)
    if draw.random() < 0.05:
        (root / "memory").mkdir()


def _spoil(file: Path, draw: random.Random) -> None:
    fault = draw.randrange(14)
    if fault == 0:
        file.unlink()
    elif fault == 1:
        file.write_bytes(b"")
    elif fault == 2:
        file.write_bytes(draw.randbytes(300))
    elif fault == 3:
        file.write_bytes(b"9" * 200_000)
    elif fault == 4:
        file.write_text("-5\n")
    elif fault == 5:
        file.write_text(f"usage_usec {10**30}\n{10**30}\nrbytes={10**30} \n")
    elif fault == 6:
        file.unlink()
        file.mkdir()
    elif fault == 7:
        file.unlink()
        file.symlink_to(file)
    elif fault == 8:
        file.unlink()
        file.symlink_to("/dev/zero")
    elif fault == 9:
        file.write_bytes(file.read_bytes()[: draw.randrange(30)])
    elif fault == 10:
        file.chmod(0)
    elif fault == 11:
        file.write_text("max\n" * 3)
