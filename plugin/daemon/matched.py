"""Finds the workload of a job that names none: by its file, its script, its program, or similar
past jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from berth.plugin.daemon import requests
from berth.plugin.daemon.messages import Job
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.fingerprint import fingerprint
from berth.plugin.history.matching import (
    JobDescription,
    describe_job,
    match_keys,
    unknown_program,
)
from berth.plugin.site.programs import ProgramRules, texts_of_script


class PastJobKeys:
    """Iterates the keys under which similar past jobs are stored, the most specific key first.

    The keys are digests of the job's properties, computed when first needed.
    """

    def __init__(self, job: Job, rules: ProgramRules) -> None:
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
    shelf: Shelf, job: Job, past: PastJobKeys, file: str | None = None
) -> requests.Choice:
    """Return the workload of a job that names none, the closest first: of the file's digest, of the
    job's script, the user's own one with the name of the job's program, of similar past jobs, a
    shared one with that name, the one that stands for unknown programs; an empty Choice where none
    of these is known.
    """
    user = job.user or ""
    if shelf.has_scripts:
        attached = None if file is None else shelf.attached(file, user)
        if attached is None and job.script:
            attached = shelf.attached(fingerprint(job.script, job.arguments or ()), user)
        if attached is not None:
            return requests.Choice(attached.workload, attached.size)
    program = past.described.program
    if program and f"{user}/{program}" in shelf.names:
        return requests.Choice(f"{user}/{program}")
    if shelf.has_scripts and user:
        attached = next(filter(None, (shelf.attached(key, user) for key in past)), None)
        if attached is not None:
            return requests.Choice(attached.workload, attached.size)
    if program in shelf.names:
        return requests.Choice(program)
    unknown = unknown_program(uses_gpus=requests.uses_gpus(job))
    return requests.Choice(unknown if unknown in shelf.names else None)
