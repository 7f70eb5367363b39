"""The scripts of ``berth pilot submit``: the pilot job, and the real job that waits for it.

Plain shell, shown by ``--dry-run``. Nothing here talks to the scheduler.
"""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from berth.pilot import rank
from berth.plugin.slurm.launchers import Launch

RANK_SCRIPT = Path(rank.__file__)
_MIB = 2**20
TAIL_S = 120
"""Of the pilot job's time, left for bringing the profile home and placing the real job."""

_RANK = "${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}}"
_SIZE = "${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-${SLURM_NTASKS:-1}}}"
_ONE_RUN = ("--repeats", "1", "--collectors", "proc,cgroup,nvml")
"""A rank can be run only once for each launch: the others wait for it."""

_SHAPE = """\
# The pilot may have changed this job's shape after sbatch wrote these: read it again.
unset SLURM_NTASKS_PER_NODE SRUN_CPUS_PER_TASK
shape=$(scontrol show job "$SLURM_JOB_ID") || shape=
for pair in SLURM_NTASKS:NumTasks SLURM_NPROCS:NumTasks SLURM_CPUS_PER_TASK:CPUs/Task; do
  value=$(printf '%s\\n' "$shape" | sed -n "s|.* ${pair#*:}=\\([0-9][0-9]*\\).*|\\1|p" | head -n 1)
  [ -z "$value" ] || export "${pair%%:*}=$value"
done
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the real job asks for; None: not given."""

    tasks: int = 1
    cpus_per_task: int = 1
    nodes: int | None = None
    memory_bytes_per_node: int | None = None
    time_limit_s: float | None = None
    gpus: int = 0

    def sbatch_options(self) -> list[str]:
        """As options of sbatch, the time limit left out."""
        found = [f"--ntasks={self.tasks}", f"--cpus-per-task={self.cpus_per_task}"]
        if self.nodes is not None:
            found.append(f"--nodes={self.nodes}")
        if self.memory_bytes_per_node is not None:
            found.append(f"--mem={math.ceil(self.memory_bytes_per_node / _MIB)}M")
        if self.gpus:
            found.append(f"--gpus={self.gpus}")
        return found


def with_srun(launch: Launch, shape: Shape) -> Launch:
    """A program without a launcher that asks for several tasks is started by srun."""
    if launch.launcher or shape.tasks == 1:
        return launch
    return Launch(("srun",), launch.program)


def pilot_script(
    launch: Launch,
    *,
    berth: str,
    profile: Path,
    run_options: Sequence[str],
    count_options: Sequence[str] | None = (),
    deliver_options: Sequence[str],
) -> str:
    """Measure, then bring the profile home whatever the program's end was.

    ``count_options``: of the launch that counts; None: only time and memory are measured.
    """
    words = [berth, "pilot", "run", "--output", str(profile), *run_options]
    if launch.launcher:
        lines = _launches(launch, words, berth=berth, profile=profile, count=count_options)
    else:
        lines = shlex.join([*words, "--", *launch.program]) + "\nstatus=$?"
    tail = shlex.join([berth, "pilot", "deliver", str(profile), *deliver_options])
    return f"#!/bin/sh\n{lines}\n{tail} || status=1\nexit $status\n"


def _launches(
    launch: Launch,
    run: Sequence[str],
    *,
    berth: str,
    profile: Path,
    count: Sequence[str] | None,
) -> str:
    """Two launches: time and memory of every rank, then the counters of rank 0 and the busiest
    other one. Ranks wait for each other, so that each launch can run a rank once only.

    ``count``: options of the second launch; None: there is none.
    """
    folder = profile.with_name(profile.name + ".ranks")
    each = [sys.executable, "-I", "-S", str(RANK_SCRIPT)]
    timed = (
        f'rank="{_RANK}"\n'
        f'if [ "$rank" = 0 ]; then exec {shlex.join([*run, *_ONE_RUN])} --ranks "{_SIZE}" -- "$@"; '
        f'fi\nexec {shlex.join(each)} {shlex.quote(str(folder))}/rank-$rank.json "$@"'
    )
    first = shlex.join([*launch.launcher, "sh", "-c", timed, "rank", *launch.program])
    ranks = shlex.join([berth, "pilot", "ranks", str(folder), "--into", str(profile)])
    # A rank 0 that fails or is cut must not leave the others waiting for it.
    lines = [
        "export SLURM_KILL_BAD_EXIT=1",
        f"rm -rf {shlex.quote(str(folder))}; mkdir -p {shlex.quote(str(folder))}",
        first,
        "status=$?",
        f"busiest=$({ranks}) || busiest=0",
    ]
    if count is not None:
        lines += ["if [ $status -eq 0 ]; then", *_counted(launch, count, berth, profile, folder),
                  "fi"]  # fmt: skip
    return "\n".join([*lines, f"rm -rf {shlex.quote(str(folder))}"])


def _counted(
    launch: Launch, options: Sequence[str], berth: str, profile: Path, folder: Path
) -> list[str]:
    words = [berth, "pilot", "count", "--into", str(profile), *options]
    counted = (
        f'busiest=$1; shift; rank="{_RANK}"\n'
        f'if [ "$rank" = 0 ] || [ "$rank" = "$busiest" ]; then exec {shlex.join(words)} '
        f'--rank "$rank" --leave {shlex.quote(str(folder))}/counts-$rank.json -- "$@"; fi\n'
        'exec "$@"'
    )
    # The number is not in the environment: launchers pass little of that on.
    head = shlex.join([*launch.launcher, "sh", "-c", counted, "rank"])
    return [
        f'{head} "$busiest" {shlex.join(launch.program)} > /dev/null',
        shlex.join([berth, "pilot", "ranks", str(folder), "--into", str(profile), "--counted"]),
    ]


def job_script(launch: Launch) -> str:
    """The real job: the command as given, in whatever shape it has when it starts."""
    return f"#!/bin/sh\n{_SHAPE}exec {shlex.join([*launch.launcher, *launch.program])}\n"
