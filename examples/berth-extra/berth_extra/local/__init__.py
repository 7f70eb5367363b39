"""Jobs as processes of this machine: the smallest scheduler that Berth can use.

Every job starts at once. Its folder below ``$BERTH_LOCAL_JOBS`` holds what was asked
(``job.json``), what it printed (``output``) and, at its end, what became of it (``end.json``).
"""

from __future__ import annotations

import getpass
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from berth.pilot.errors import SchedulerError, UsageError
from berth.pilot.run import Run
from berth.plugin.scheduler import (
    ClusterFacts,
    EndedJobs,
    Job,
    NodeFacts,
    QueueFacts,
    Scheduler,
)
from berth.policies.values import Edit, Request
from berth_extra.local import jobs

QUEUE = "local"


class LocalProcesses(Scheduler):
    """One node, one queue."""

    name = "local"
    title = "Local processes"
    daemon_users = (getpass.getuser(),)

    def read(self, *, full: bool = True) -> ClusterFacts:
        """See Scheduler. Running jobs hold the cores that they asked for."""
        cores = os.cpu_count() or 1
        held = sum(job.cores for job in jobs.every() if job.ended is None)
        node = NodeFacts(
            name=platform.node() or "localhost",
            queues=(QUEUE,),
            usable=True,
            cores=cores,
            idle_cores=max(0, cores - held),
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            architecture=platform.machine(),
        )
        return ClusterFacts(
            name=node.name,
            version="local 1.0",
            as_of_s=time.time(),
            queues={QUEUE: QueueFacts(QUEUE, up=True, is_default=True)},
            nodes=(node,),
        )

    def render(self, job: Job, request: Request, edit: Edit | None) -> tuple[str, ...]:
        """See Scheduler."""
        held = (edit and edit.resources) or request.resources
        queue = (edit and edit.queue) or request.queue or QUEUE
        if held.gpus:
            raise SchedulerError("local processes are given no GPUs")
        words = (f"--queue={queue}", f"--cores={held.cores}", "--", *job.words)
        return (sys.executable, "-m", "berth_extra.local.run", *words)

    def submit(self, command: Sequence[str]) -> str:
        """See Scheduler."""
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or ["no message"]
            raise SchedulerError(f"the job could not be started: {said[-1]}")
        return done.stdout.strip()

    def outcomes(self, job_ids: Sequence[str]) -> Mapping[str, Run]:
        """See Scheduler."""
        return {job.id: job.outcome() for job in jobs.every() if job.id in job_ids}

    def ended(self, since_s: float, until_s: float, known: Mapping[str, float]) -> EndedJobs:
        """See Scheduler."""
        found = (job.outcome() for job in jobs.every() if job.ended is not None)
        return EndedJobs(
            tuple(
                outcome
                for outcome in found
                if outcome.end_s is not None
                and since_s <= outcome.end_s <= until_s
                and known.get(outcome.job_id) != outcome.end_s
            )
        )

    def is_here(self) -> bool:
        """See Scheduler. Everywhere; ``berth site init`` prefers Slurm and Flux."""
        return True

    def job_id(self, text: str) -> str | None:
        """See Scheduler."""
        return text if re.fullmatch(r"local-[0-9]+", text) else None


def check_queue(queue: str) -> None:
    """Raises UsageError for a queue that is not there."""
    if queue != QUEUE:
        raise UsageError(f"invalid queue {queue!r}: there is only {QUEUE!r}")
