"""Builds the shell scripts of ``berth pilot submit``: the pilot job, and the real job after it.

The scripts are plain shell, shown by ``--dry-run``; this module does not contact the scheduler.
Under Slurm a launcher's ranks are not its child processes, so the measuring program must stand
between the launcher and the ranks' program: ``srun -n 8 ./app x`` is split into those two.
"""

from __future__ import annotations

import math
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from berth.pilot import rank
from berth.pilot.errors import UsageError

LAUNCHERS = frozenset(("srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"))

_VALUED = """
-n -N -c -p -t -w -x -A -C -D -J -K -L -m -M -P -q -S -T -u -np -H -host --host -hostfile --hostfile
-machinefile --machinefile -ppn -f -hosts -env -genv -mca --mca -wdir --wdir --ntasks --nodes
--cpus-per-task --partition --time --nodelist --exclude --account --constraint --chdir --job-name
--mem --mem-per-cpu --gres --gpus --gpus-per-task --gpus-per-node --ntasks-per-node --mpi --cpu-bind
--gpu-bind --distribution --export --output --error --input --qos --reservation --threads-per-core
--hint --map-by --bind-to --rank-by --prefix -perhost -bind-to -map-by
"""
_PLAIN = """
-l -v -vv -Q -q -s -O -k -E -X -exclusive --exclusive --label --verbose --quiet --overlap
--overcommit --oversubscribe --exact --no-kill --multi-prog --pty --unbuffered --contiguous
--allow-run-as-root --tag-output --display-map --nolocal --report-bindings
"""
_WITH_VALUE = frozenset(_VALUED.split())
_WITHOUT_VALUE = frozenset(_PLAIN.split())
_WITH_TWO = frozenset(("-mca", "--mca", "-genv", "-env"))


@dataclass(frozen=True, slots=True)
class PilotLaunch:
    """A command split into launcher and program. ``launcher`` is empty for a program without
    one."""

    launcher: tuple[str, ...]
    program: tuple[str, ...]


def split(command: Sequence[str]) -> PilotLaunch:
    """Split a command into the launcher with its options, and the program with its arguments.

    Raises UsageError where the split is ambiguous; ``--`` between the two resolves it.
    """
    words = tuple(command)
    if not words or Path(words[0]).name not in LAUNCHERS:
        return PilotLaunch((), words)
    if "--" in words:
        index = words.index("--")
        return _checked(words, words[:index], words[index + 1 :])
    index = 1
    while index < len(words) and words[index].startswith("-"):
        index += _width(words, index)
    return _checked(words, words[:index], words[index:])


def _width(words: tuple[str, ...], index: int) -> int:
    """Return how many words an option takes, its values included. Raises UsageError for unknown
    options.
    """
    word = words[index]
    if word in _WITH_TWO:
        return 3
    srun = Path(words[0]).name == "srun"
    if word == "-q" and srun:  # srun's --qos; mpirun's --quiet
        return 2
    if word in _WITHOUT_VALUE or "=" in word:
        return 1
    if word in _WITH_VALUE:
        return 2
    if srun and not word.startswith("--") and len(word) > 2:
        return 1  # -n8
    raise _unclear(words, word)


def _checked(
    words: tuple[str, ...], launcher: tuple[str, ...], program: tuple[str, ...]
) -> PilotLaunch:
    if not program:
        raise UsageError(
            f"there is no program after {words[0]}", hint=f"write: {' '.join(words)} ./app"
        )
    if shutil.which(program[0]) is None and not Path(program[0]).exists():
        raise _unclear(words, program[0])
    return PilotLaunch(launcher, program)


def _unclear(words: tuple[str, ...], word: str) -> UsageError:
    return UsageError(
        f"cannot tell where the program begins in {' '.join(words)!r} ({word!r} is not known)",
        hint=f"put -- before the program: {words[0]} ... -- ./app",
    )


RANK_SCRIPT = Path(rank.__file__)
_MIB = 2**20
TAIL_S = 120
"""Seconds of the pilot job's time reserved for delivering the profile and placing the real job."""

_RANK = "${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}}"
_SIZE = "${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-${SLURM_NTASKS:-1}}}"
_ONE_RUN = ("--repeats", "1", "--collectors", "proc,cgroup,nvml")
"""Options for a single run: each launch can run a rank only once, since ranks wait for each other.
"""

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
class PilotShape:
    """The real job's resource request; None: not requested."""

    tasks: int = 1
    cpus_per_task: int = 1
    nodes: int | None = None
    memory_bytes_per_node: int | None = None
    time_limit_s: float | None = None
    gpus: int = 0

    def sbatch_options(self) -> list[str]:
        """Return the request as sbatch options, without the time limit."""
        options = [f"--ntasks={self.tasks}", f"--cpus-per-task={self.cpus_per_task}"]
        if self.nodes is not None:
            options.append(f"--nodes={self.nodes}")
        if self.memory_bytes_per_node is not None:
            options.append(f"--mem={math.ceil(self.memory_bytes_per_node / _MIB)}M")
        if self.gpus:
            options.append(f"--gpus={self.gpus}")
        return options


def with_srun(launch: PilotLaunch, shape: PilotShape) -> PilotLaunch:
    """Return the launch with ``srun`` added, where several tasks are requested and there is no
    launcher.
    """
    if launch.launcher or shape.tasks == 1:
        return launch
    return PilotLaunch(("srun",), launch.program)


def pilot_script(
    launch: PilotLaunch,
    *,
    berth: str,
    profile: Path,
    run_options: Sequence[str],
    deliver_options: Sequence[str],
) -> str:
    """Return the pilot job's shell script: measure the program, then deliver the profile even if
    the program failed.
    """
    words = [berth, "pilot", "run", "--output", str(profile), *run_options]
    if launch.launcher:
        lines = _launches(launch, words, berth=berth, profile=profile)
    else:
        lines = shlex.join([*words, "--", *launch.program]) + "\nstatus=$?"
    tail = shlex.join([berth, "pilot", "deliver", str(profile), *deliver_options])
    return f"#!/bin/sh\n{lines}\n{tail} || status=1\nexit $status\n"


def _launches(launch: PilotLaunch, run: Sequence[str], *, berth: str, profile: Path) -> str:
    """Return shell text of one launch that measures time and memory of every rank."""
    folder = profile.with_name(profile.name + ".ranks")
    each = [sys.executable, "-I", "-S", str(RANK_SCRIPT)]
    timed = (
        f'rank="{_RANK}"\n'
        f'if [ "$rank" = 0 ]; then exec {shlex.join([*run, *_ONE_RUN])} --ranks "{_SIZE}" -- "$@"; '
        f'fi\nexec {shlex.join(each)} {shlex.quote(str(folder))}/rank-$rank.json "$@"'
    )
    first = shlex.join([*launch.launcher, "sh", "-c", timed, "rank", *launch.program])
    ranks = shlex.join([berth, "pilot", "ranks", str(folder), "--into", str(profile)])
    launcher = shlex.quote(launch.launcher[0])
    # If rank 0 fails or is killed, the other ranks must not wait for it.
    lines = [
        f"command -v {launcher} > /dev/null || {{ echo {shlex.quote(_no(launch.launcher[0]))} >&2; "
        "exit 127; }",
        "export SLURM_KILL_BAD_EXIT=1",
        f"rm -rf {shlex.quote(str(folder))}; mkdir -p {shlex.quote(str(folder))}",
        first,
        "status=$?",
        ranks,
        f"rm -rf {shlex.quote(str(folder))}",
    ]
    return "\n".join(lines)


def _no(launcher: str) -> str:
    """Return what a pilot job says on a node without the MPI launcher."""
    return (
        f"Error: {launcher}: this node has no such MPI launcher; load its module before berth "
        "pilot submit (the job gets that environment), or leave the launcher out: --tasks N -- "
        "./app starts the ranks by srun"
    )


def job_script(launch: PilotLaunch) -> str:
    """Return the real job's script: the user's command, run with the resources that the job has
    when it starts.
    """
    return f"#!/bin/sh\n{_SHAPE}exec {shlex.join([*launch.launcher, *launch.program])}\n"
