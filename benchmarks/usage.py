"""How long ``berth pilot usage`` holds a job's end up, beside Python's start alone.

500 jobs, each with a control group of its own (files), half of them with GPUs of a stub NVML where
a C compiler is here. Wall times need a quiet machine; processor times hardly depend on that.
Bars: median 20 ms, none over 50 ms, exit status 0 always.
"""

from __future__ import annotations

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
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "nvml")]

from fake_nvml import FakeFleet, build  # noqa: E402
from job_trees import plant  # noqa: E402

from berth.pilot.usage.line import parse_line  # noqa: E402
from berth.plugin.cli.pilot.usage import script_text  # noqa: E402

JOBS = 500
MEDIAN_MS, MOST_MS = 20.0, 50.0


def main() -> int:
    """Print the table; return 1 if a job's end failed or left a line that cannot be read."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spool, script = folder / "spool", folder / "epilog"
        spool.mkdir()
        script.write_text(script_text(spool))
        script.chmod(0o755)
        gpus = _stub_gpus(folder)
        nothing = [sys.executable, "-I", "-S", "-c", "pass"]
        bare, with_cpu, with_gpu = list[Run](), list[Run](), list[Run]()
        for job in range(JOBS):
            has_gpu = bool(gpus) and job % 2 == 1
            plant(folder / "cg", str(job))
            environ = {
                "SLURM_JOB_ID": str(job),
                "SLURMD_NODENAME": "n1",
                "BERTH_USAGE_CGROUPS": str(folder / "cg"),
                **(gpus if has_gpu else {}),
            }
            bare.append(_run(nothing, {}))
            (with_gpu if has_gpu else with_cpu).append(_run([str(script)], environ))
            shutil.rmtree(folder / "cg")
        lines = [parse_line(file.read_text(), file.name) for file in spool.glob("*.usage")]
    print(f"{JOBS} jobs on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    _print("Python's start alone", bare)
    _print("jobs without GPUs", with_cpu)
    if with_gpu:
        _print("jobs with GPUs (stub NVML)", with_gpu)
    every = with_cpu + with_gpu
    _print("all jobs", every)
    walls_ms = [run.wall_ms for run in every]
    median_ms, most_ms = statistics.median(walls_ms), max(walls_ms)
    print(f"bar: median {MEDIAN_MS:.0f} ms: {_verdict(median_ms, MEDIAN_MS)}", end="; ")
    print(f"longest {MOST_MS:.0f} ms: {_verdict(most_ms, MOST_MS)}")
    failures = sum(run.status != 0 for run in every)
    late = sum("nvml: no answer in time" in line.lacks for line in lines)
    print(f"{failures} failures, {len(lines)} lines, {late} without GPUs as time ran out")
    return int(failures > 0)


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
    print(
        f"{title:28} median {statistics.median(walls):6.1f} ms   p99 "
        f"{walls[int(0.99 * len(walls))]:6.1f}   longest {walls[-1]:6.1f}   "
        f"processor time {cpu_ms:5.1f} ms"
    )


def _verdict(value: float, bar: float) -> str:
    return "met" if value <= bar else f"missed ({value:.1f})"


if __name__ == "__main__":
    sys.exit(main())
