"""How long ``berth pilot usage`` holds a job's end up, beside Python's start alone.

500 jobs, each with a control group of its own (files), half of them with GPUs of a stub NVML where
a C compiler is here. With ``--slurm`` they are jobs of a private Slurm, two at once, and the script
is its Epilog, timed by a shell around it. Wall times need a quiet machine; on a busy one
``--first`` gives the script a processor before all else (``chrt``, as root).
Bars: median 20 ms, none over 50 ms, exit status 0 always.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("support", "nvml", "slurm")]

from fake_nvml import FakeFleet, build  # noqa: E402
from job_trees import STATS, plant  # noqa: E402
from slurm_cluster import Cluster, cluster, wait_until  # noqa: E402

from berth.pilot.usage.line import parse_line  # noqa: E402
from berth.plugin.cli.pilot.usage import script_text  # noqa: E402

JOBS = 500
MEDIAN_MS, MOST_MS = 20.0, 50.0
ALONE, WITHOUT, WITH = "Python's start alone", "jobs without GPUs", "jobs with GPUs (stub NVML)"


def main() -> int:
    """Print the table; return 1 if a job's end failed or left a line that cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slurm", action="store_true", help="as the Epilog of a private Slurm")
    parser.add_argument("--first", action="store_true", help="with a processor before all else")
    options = parser.parse_args()
    on_slurm, first = options.slurm, ["chrt", "-r", "1"] * options.first
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        spool = folder / "spool"
        spool.mkdir()
        gpus = _stub_gpus(folder)
        runs = (_slurm_jobs if on_slurm else _processes)(folder, spool, gpus, first)
        lines = [parse_line(file.read_text(), file.name) for file in spool.glob("*.usage")]
    where = "of a private Slurm" if on_slurm else "without Slurm"
    print(f"{JOBS} jobs {where}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for title, of_title in runs.items():
        _print(title, of_title)
    every = [run for title, of_title in runs.items() if title != ALONE for run in of_title]
    _print("all jobs", every)
    walls_ms = [run.wall_ms for run in every]
    median_ms, most_ms = statistics.median(walls_ms), max(walls_ms)
    print(f"bar: median {MEDIAN_MS:.0f} ms: {_verdict(median_ms, MEDIAN_MS)}", end="; ")
    print(f"longest {MOST_MS:.0f} ms: {_verdict(most_ms, MOST_MS)}")
    failures = sum(run.status != 0 for run in every)
    late = sum("nvml: no answer in time" in line.lacks for line in lines)
    print(f"{failures} failures, {len(lines)} lines, {late} without GPUs as time ran out")
    return int(failures > 0)


def _processes(
    folder: Path, spool: Path, gpus: Mapping[str, str], first: Sequence[str]
) -> dict[str, list[Run]]:
    """Run the script once for each job, and Python's start alone before each."""
    script = folder / "epilog"
    script.write_text(script_text(spool))
    script.chmod(0o755)
    nothing = [sys.executable, "-I", "-S", "-c", "pass"]
    runs: dict[str, list[Run]] = {ALONE: [], WITHOUT: [], **({WITH: []} if gpus else {})}
    for job in range(JOBS):
        title = WITH if gpus and job % 2 == 1 else WITHOUT
        plant(folder / "cg", str(job))
        environ = {
            "SLURM_JOB_ID": str(job),
            "SLURMD_NODENAME": "n1",
            "BERTH_USAGE_CGROUPS": str(folder / "cg"),
            **(gpus if title == WITH else {}),
        }
        runs[ALONE].append(_run([*first, *nothing], {}))
        runs[title].append(_run([*first, str(script)], environ))
        shutil.rmtree(folder / "cg")
    return runs


def _slurm_jobs(
    folder: Path, spool: Path, gpus: Mapping[str, str], first: Sequence[str]
) -> dict[str, list[Run]]:
    """Run the jobs on a private Slurm whose Epilog is the script, with a shell that times it."""
    groups, told = folder / "cg", folder / "times"
    scope = groups / "system.slice" / "slurmstepd.scope"
    scope.mkdir(parents=True)
    (groups / "cgroup.controllers").write_text("cpu io memory\n")
    scope.chmod(0o1777)
    script, timed = folder / "epilog", folder / "timed"
    more = {"BERTH_USAGE_CGROUPS": str(groups), **gpus}
    exports = "".join(
        f"export {key}='{value}'\n" for key, value in more.items() if "GPUS" not in key
    )
    script.write_text(script_text(spool).replace("run=", f"{exports}run=", 1))
    timed.write_text(
        f"#!/bin/bash\nb=$EPOCHREALTIME\n{' '.join([*first, str(script)])}\ns=$?\n"
        f'echo "$b $EPOCHREALTIME $s ${{SLURM_JOB_GPUS:--}}" >> {told}\n'
    )
    script.chmod(0o755)
    timed.chmod(0o755)

    class Nodes(Cluster):
        """The cluster of the tests with this Epilog."""

        def __init__(self) -> None:
            super().__init__(
                amend=lambda files: {
                    **files, "slurm.conf": files["slurm.conf"] + f"Epilog={timed}\n"
                }
            )  # fmt: skip

    group = f"{scope}/job_$SLURM_JOB_ID"
    files = "".join(f"cat > {group}/{name} <<'E'\n{text}E\n" for name, text in STATS.items())
    job = f"#!/bin/sh\nmkdir -p {group}\n{files}"
    with cluster(Nodes) as slurm:
        for options in (("-p", "cpu"), ("-p", "gpu", "--gres=gpu:1")):
            slurm.sbatch(*options, f"--array=1-{JOBS // 2}%2", script=job)
        rows = lambda: [row.split() for row in told.read_text().splitlines()]  # noqa: E731
        wait_until(lambda: told.exists() and len(rows()) >= JOBS, "all jobs have ended", 3600)
    runs: dict[str, list[Run]] = {WITHOUT: [], WITH: []}
    for begun, ended, status, gpu in rows():
        wall_ms = 1e3 * (float(ended) - float(begun))
        runs[WITHOUT if gpu == "-" else WITH].append(Run(wall_ms, float("nan"), int(status)))
    return runs


def _stub_gpus(folder: Path) -> Mapping[str, str]:
    """Return the environment of a node with two GPUs; empty without a C compiler."""
    if not shutil.which("cc"):
        return {}
    (folder / "nvml").mkdir()
    fleet = FakeFleet(build(folder / "nvml"), folder / "fleet")
    fleet.reset("a100-40", "a100-40", mig=False)
    (folder / "accounting").write_text("0 10 80 40 3000 60000 1700000000000000\n")
    accounting = {"FAKE_NVML_ACCOUNTING": str(folder / "accounting"), "SLURM_JOB_GPUS": "0"}
    return {**fleet.environment, **accounting}


@dataclass(frozen=True, slots=True)
class Run:
    """One process: its wall time and processor time (ms, with its children's), its status."""

    wall_ms: float
    cpu_ms: float
    status: int


def _run(words: Sequence[str], environ: Mapping[str, str]) -> Run:
    before, begun_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(words, env=dict(environ), capture_output=True, check=False)
    wall_s, after = time.perf_counter() - begun_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(1e3 * wall_s, 1e3 * cpu_s, done.returncode)


def _print(title: str, runs: Sequence[Run]) -> None:
    walls = sorted(run.wall_ms for run in runs)
    cpu_ms = statistics.median(run.cpu_ms for run in runs)
    spent = "" if math.isnan(cpu_ms) else f"   processor time {cpu_ms:5.1f} ms"
    print(
        f"{title:28} median {statistics.median(walls):6.1f} ms   p99 "
        f"{walls[int(0.99 * len(walls))]:6.1f}   longest {walls[-1]:6.1f}{spent}"
    )


def _verdict(value: float, bar: float) -> str:
    return "met" if value <= bar else f"missed ({value:.1f})"


if __name__ == "__main__":
    sys.exit(main())
