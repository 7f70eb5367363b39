"""Slurm behind the Scheduler door, by its commands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from berth.pilot.errors import SchedulerError
from berth.plugin.scheduler import ClusterFacts, EndedJobs, Job, Outcome
from berth.plugin.slurm import accounting, commands
from berth.plugin.slurm.cluster import read_cluster
from berth.plugin.slurm.render import sbatch
from berth.policies.values import Edit, Request


class Slurm:
    """The Scheduler that speaks to Slurm. Holds nothing: each call asks again."""

    name = "slurm"

    def read(self) -> ClusterFacts:
        """See Scheduler."""
        return replace(read_cluster(), name=_cluster_name())

    def render(self, job: Job, request: Request, edit: Edit | None) -> tuple[str, ...]:
        """See Scheduler."""
        return sbatch(job, request, edit)

    def submit(self, command: Sequence[str]) -> str:
        """See Scheduler. Slurm's own words go on where it refuses the job."""
        answer = commands.run((command[0], "--parsable", *command[1:]), submits=True)
        job_id = answer.strip().split(";")[0]
        if re.fullmatch(r"\d+", job_id) is None:
            raise SchedulerError(f"sbatch answered {answer.strip()[:80]!r} instead of a job id")
        return job_id

    def outcomes(self, job_ids: Sequence[str]) -> Mapping[str, Outcome]:
        """See Scheduler. From the accounting; without it from what slurmctld remembers."""
        return accounting.of_jobs(job_ids)

    def ended(self, since_s: float, until_s: float, known: Mapping[str, float]) -> EndedJobs:
        """See Scheduler. Without accounting slurmctld is asked, which forgets after MinJobAge."""
        return accounting.ended(since_s, until_s, known)


def _cluster_name() -> str:
    text = commands.run(("scontrol", "show", "config"))
    found = re.search(r"^ClusterName\s*=\s*(\S+)", text, re.MULTILINE)
    return "slurm" if found is None else found.group(1)
