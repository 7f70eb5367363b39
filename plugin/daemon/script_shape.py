"""Finds scripts that set their number of tasks, cores or threads themselves.

``srun -n 8``, ``mpirun -np 8``, ``srun -c 4`` and ``OMP_NUM_THREADS=16`` fit only the shape
(nodes, tasks, cores) that the job asked for. Launchers inside other scripts are not found.
Therefore a job's shape is kept by default, and scripts are searched only where the site or the
workload allows a change of shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from berth.plugin.daemon.messages import Job
from berth.plugin.daemon.view import SiteView
from berth.policies.values import Request

_LAUNCHERS = re.compile(
    r"(?:^|[\s;&|(`\"'/=])(?:srun|mpirun|mpiexec(?:\.hydra|\.mpich|\.openmpi)?|orterun|prun|prterun|"
    r"aprun|jsrun|ibrun|torchrun|accelerate|deepspeed|parallel|xargs|make|snakemake)\s(.*)$"
)
_COUNTS = re.compile(
    r"(?:^|\s)(?:-n|-np|--np|--ntasks|-N|--nodes|--ntasks-per-node|--tasks-per-node|--map-by|-c|"
    r"--cpus-per-task|-ppn|--ppn|--npernode|--nproc[_-]per[_-]node|--num[_-]processes|--num_gpus|"
    r"-j|--jobs|--cores|-P|-a|-r|-d)[=\s]*[\"']?\d"
)
_THREADS = re.compile(
    r"(?:^|[\s;&(])(?:\w+_NUM_THREADS|JULIA_NUM_PROCS|SRUN_CPUS_PER_TASK)=[\"']?\d|"
    r"\s(?:--?threads|-nt|-ntomp|-ntmpi|--num[_-]?threads|--processes|--n?procs|--nprocs|"
    r"--workers|--n_?jobs|--cpus|--ncores)[=\s]+[\"']?\d"
)

_IN_BACKGROUND = re.compile(r"(?<![&>|\\])&(?![&>\d])")
_SEVERAL_AT_ONCE = re.compile(r"(?:^|[\s;&|(`/])(?:parallel|xargs)\s.*\bsrun\b")


def with_shape(request: Request, job: Job, site: SiteView, *, follows: bool) -> Request:
    """Return the request with two findings from its script: whether its shape must be kept, and
    whether it starts several job steps at once.

    An unreadable script counts as doing both. ``follows``: the workload uses whatever tasks and
    cores it is given.
    """
    interactive = job.kind == "interactive"  # srun and salloc have no script to search
    unread = bool(job.script_unread)
    packs = unread or packs_steps(job.script or "")
    keeps = False
    if follows or site.changes_shapes:
        keeps = interactive or unread or names_its_shape(job.script or "")
    if not (packs or keeps or follows):
        return request
    return replace(request, keeps_shape=keeps, packs_steps=packs, follows_shape=follows)


def packs_steps(script: str) -> bool:
    """Return whether the script runs job steps concurrently, by ``srun ... &`` or similar.

    A script with a step and any background command counts: the step may be in a function.
    """
    if "srun" not in script:
        return False
    commands = list(_commands(script))
    return any("srun" in line for line in commands) and any(
        _IN_BACKGROUND.search(line) or _SEVERAL_AT_ONCE.search(line) for line in commands
    )


def names_its_shape(script: str) -> bool:
    """Return whether an executed line of the script sets the number of tasks, cores or threads."""
    for text in _commands(script):
        launched = _LAUNCHERS.search(text)
        if launched is not None and _COUNTS.search(launched[1]):
            return True
        if _THREADS.search(text):
            return True
    return False


def _commands(script: str) -> Iterator[str]:
    """Yield the script's lines without comments, with continued lines joined."""
    whole = script.replace("\\\r\n", " ").replace("\\\n", " ")
    return (
        line for line in map(str.strip, whole.splitlines()) if line and not line.startswith("#")
    )
