"""Finds the workload of a job that names none: by its file, its script, or similar past jobs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from berth.plugin.daemon import requests
from berth.plugin.daemon.fingerprint import fingerprint
from berth.plugin.daemon.messages import Job
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.history.matching import JobDescription, describe_job, match_keys


class PastJobKeys:
    """Iterates the keys under which similar past jobs are stored, the most specific key first.

    The keys are digests of the job's properties, computed when first needed.
    """

    def __init__(self, job: Job) -> None:
        self._job = job

    @cached_property
    def described(self) -> JobDescription:
        """Return the digests of the job's name, script and arguments."""
        job = self._job
        return describe_job(job.name or "", job.arguments or (), job.script)

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
    """Return the workload of a job that names none: by the file's digest, else by the job's script,
    else by similar past jobs; an empty Choice where none of these is known.
    """
    if not shelf.has_scripts:
        return requests.Choice()
    user = job.user or ""
    attached = None if file is None else shelf.attached(file, user)
    if attached is None and job.script:
        attached = shelf.attached(fingerprint(job.script, job.arguments or ()), user)
    if attached is None and user:
        attached = next(filter(None, (shelf.attached(key, user) for key in past)), None)
    if attached is None:
        return requests.Choice()
    return requests.Choice(attached.workload, attached.size)
