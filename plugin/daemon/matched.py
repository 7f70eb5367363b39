"""Which workload a job is that names none: its file's, its script's, else that of its past jobs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from berth.plugin.daemon import requests
from berth.plugin.daemon.fingerprint import fingerprint
from berth.plugin.daemon.messages import Job
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.history.matching import Described, described, keys


class Past:
    """What a job's past ones may be found by, the closest first; each made once, when needed."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._made: list[str] = []
        self._rest: Iterator[str] | None = None

    @cached_property
    def what(self) -> Described:
        """Its program: name, script and arguments."""
        job = self._job
        return described(job.name or "", job.arguments or (), job.script)

    def __iter__(self) -> Iterator[str]:
        yield from self._made
        if self._rest is None:
            self._rest = self._keys()
        for key in self._rest:
            self._made.append(key)
            yield key

    def _keys(self) -> Iterator[str]:
        job = self._job
        tasks, cpus = requests.shape(job)
        found = keys(
            job.user or "", tasks * cpus, requests.time_limit_s(job), self.what,
            account=requests.account(job) or "",
        )  # fmt: skip
        return (digest for _, digest in found)


def by_script(shelf: Shelf, job: Job, past: Past, file: str | None = None) -> requests.Choice:
    """The workload that a file with this digest, its script or else its past jobs are attached
    to."""
    if not shelf.has_scripts:
        return requests.Choice()
    user = job.user or ""
    found = None if file is None else shelf.attached(file, user)
    if found is None and job.script:
        found = shelf.attached(fingerprint(job.script, job.arguments or ()), user)
    if found is None and user:
        found = next(filter(None, (shelf.attached(key, user) for key in past)), None)
    return requests.Choice() if found is None else requests.Choice(found.workload, found.size)
