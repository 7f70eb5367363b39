"""Flux behind the Scheduler door, by its ``flux`` command."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from berth.pilot.errors import SchedulerError
from berth.plugin.flux import commands
from berth.plugin.flux.outcomes import parse_ended, parse_outcomes
from berth.plugin.flux.reading import read_cluster
from berth.plugin.flux.render import flux_submit
from berth.plugin.scheduler import ClusterFacts, EndedJobs, Job, Outcome
from berth.policies.values import Edit, Request

_JOB_ID = re.compile(r"(?:ƒ|f)[1-9A-HJ-NP-Za-km-z]{1,12}")
"""A job's id in base 58 (RFC 19), as the submitting commands print it."""

_ENDED_TIMEOUT_S = 120.0
"""For the jobspecs of everything that ended in some hours; nobody waits for it."""


class Flux:
    """The Scheduler that speaks to Flux. Holds nothing: each call asks again."""

    name = "flux"

    def read(self) -> ClusterFacts:
        """See Scheduler. With each node's memory, where Flux can tell it."""
        return read_cluster(memory=True)

    def render(self, job: Job, request: Request, edit: Edit | None) -> tuple[str, ...]:
        """See Scheduler. Raises SchedulerError for what Flux has no words for."""
        return flux_submit(job, request, edit)

    def submit(self, command: Sequence[str]) -> str:
        """See Scheduler. Flux's own words go on where it refuses the job."""
        answer = commands.run(*command[1:], submits=True).strip()
        job_id = answer.splitlines()[-1] if answer else ""
        if _JOB_ID.fullmatch(job_id) is None:
            raise SchedulerError(f"flux submit answered {answer[:80]!r} instead of a job id")
        return job_id

    def outcomes(self, job_ids: Sequence[str]) -> Mapping[str, Outcome]:
        """See Scheduler."""
        if not job_ids:
            return {}
        return parse_outcomes(commands.ask("jobs", *job_ids))

    def ended(self, since_s: float, until_s: float, known: Mapping[str, float]) -> EndedJobs:
        """See Scheduler. Only the instance's owner may read the stamps of other users' jobs."""
        lines = commands.ask_lines(
            "ended",
            f"{since_s:.6f}",
            f"{until_s:.6f}",
            stdin=json.dumps(dict(known)),
            timeout_s=_ENDED_TIMEOUT_S,
        )
        return parse_ended(lines)
