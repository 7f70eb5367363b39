"""Recognises a job's workload, and its script's shape, before anything is predicted.

The workload of a job that names none is found by its file, its script, its program, or similar past
jobs. ``srun -n 8``, ``mpirun -np 8``, ``srun -c 4`` and ``OMP_NUM_THREADS=16`` fit only the shape
(nodes, tasks, cores) that the job asked for. Launchers inside other scripts are not found.
Therefore a job's shape is kept by default, and scripts are searched only where the site or the
workload allows a change of shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from berth.plugin.daemon import requests
from berth.plugin.daemon.protocol import SubmittedJob
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.daemon.view import SiteView
from berth.plugin.fingerprint import fingerprint
from berth.plugin.history.matching import (
    JobDescription,
    describe_job,
    match_keys,
    unknown_program,
)
from berth.plugin.site.programs import ProgramRules, texts_of_script
from berth.policies.values import Request


class PastJobKeys:
    """Iterates the keys under which similar past jobs are stored, the most specific key first.

    The keys are digests of the job's properties, computed when first needed.
    """

    def __init__(self, job: SubmittedJob, rules: ProgramRules) -> None:
        self._job = job
        self._rules = rules

    @cached_property
    def described(self) -> JobDescription:
        """Return the job's name and program, and the digests of its script and arguments."""
        job = self._job
        described = describe_job(job.name or "", job.arguments or (), job.script)
        texts = texts_of_script(
            job.name or "",
            job.script,
            fields=self._rules.fields_read(job.name or ""),
            comment=job.comment or "",
            arguments=job.arguments or (),
            path=job.script_path or "",
            modules=job.modules or "",
        )
        return replace(described, program=self._rules.program_of(texts))

    @cached_property
    def _keys(self) -> tuple[str, ...]:
        job = self._job
        tasks, cpus = requests.shape(job)
        by_kind = match_keys(
            job.user or "", tasks * cpus, requests.time_limit_s(job), self.described,
            account=requests.account(job) or "",
        )  # fmt: skip
        return tuple(digest for _, digest in by_kind)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)


def matched_workload(
    shelf: Shelf, job: SubmittedJob, past: PastJobKeys, file: str | None = None
) -> requests.NamedWorkload:
    """Return the workload of a job that names none, the closest first: of the file's digest, of the
    job's script, the user's own one with the name of the job's program, of similar past jobs, a
    shared one with that name, the one that stands for unknown programs; empty where none is known.
    """
    user = job.user or ""
    if shelf.has_scripts:
        attached = None if file is None else shelf.attached(file, user)
        if attached is None and job.script:
            attached = shelf.attached(fingerprint(job.script, job.arguments or ()), user)
        if attached is not None:
            return requests.NamedWorkload(attached.workload, attached.size)
    program = past.described.program
    if program and f"{user}/{program}" in shelf.names:
        return requests.NamedWorkload(f"{user}/{program}")
    if shelf.has_scripts and user:
        attached = next(filter(None, (shelf.attached(key, user) for key in past)), None)
        if attached is not None:
            return requests.NamedWorkload(attached.workload, attached.size)
    if program in shelf.names:
        return requests.NamedWorkload(program)
    unknown = unknown_program(uses_gpus=requests.uses_gpus(job))
    return requests.NamedWorkload(unknown if unknown in shelf.names else None)


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


def with_shape(request: Request, job: SubmittedJob, site: SiteView, *, follows: bool) -> Request:
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
