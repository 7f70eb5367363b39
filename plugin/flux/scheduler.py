"""Implements the Scheduler protocol for Flux, by its ``flux`` command."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from berth.pilot.errors import BerthError, SchedulerError
from berth.pilot.run import Run
from berth.plugin.findings import Findings
from berth.plugin.flux import accounting, commands, present_jobs
from berth.plugin.flux.cluster import read_cluster
from berth.plugin.flux.submit_command import flux_submit, node_batch, workers_batches
from berth.plugin.scheduler import (
    ClusterFacts,
    EndedJobs,
    Job,
    NodeJob,
    PresentJob,
    Replacing,
    Scheduler,
    WorkersJob,
    stamped_decision,
)
from berth.policies.limits import Rights
from berth.policies.values import Edit, Request

if TYPE_CHECKING:
    from berth.plugin.scheduler.past_jobs import ReadJobs
    from berth.plugin.site.site import Site
    from berth.policies.mig import Layout

_JOB_ID = re.compile(r"(?:ƒ|f)[1-9A-HJ-NP-Za-km-z]{1,12}")
"""A job's id in base 58 (RFC 19), as the submitting commands print it."""

_ENDED_TIMEOUT_S = 120.0
"""Seconds allowed for reading the jobspecs of all jobs that ended within some hours; no
user waits.
"""


_BANKS_S = 60.0
"""Seconds between two queries of flux-accounting about queues: its answer lists every user."""


class Flux(Scheduler):
    """The Scheduler for Flux. Each call queries Flux again, except that flux-accounting's banks are
    cached.
    """

    name = "flux"
    title = "Flux"
    config_file = "Flux's configuration"
    opt_out = "--setattr=user.berth.mode=off"
    pair_launcher = "flux run --nodes=2 --ntasks={ranks}"

    def __init__(self, settings: Any = None) -> None:
        """Take no settings: Flux has no table in the site file."""
        self._rights: Rights | None = None
        self._rights_s: float | None = None

    def read(self, *, full: bool = True) -> ClusterFacts:
        """Read queues and nodes as they are now; ``full`` adds each node's memory, where Flux
        reports it.
        """
        now_s = time.monotonic()
        if self._rights_s is not None and now_s - self._rights_s < _BANKS_S:
            return replace(read_cluster(memory=full), rights=self._rights)
        facts = read_cluster(memory=full, banks=True)
        self._rights, self._rights_s = facts.rights, now_s
        return facts

    def render(self, job: Job, request: Request, edit: Edit | None) -> tuple[str, ...]:
        """Return the ``flux`` command for the request, with the decision's edit applied. Raises
        SchedulerError for a request that Flux cannot express.
        """
        return flux_submit(job, request, edit)

    def submit(self, command: Sequence[str]) -> str:
        """Run the command and return the job's id. Raises SchedulerError with Flux's own message
        where Flux refuses the job.
        """
        answer = commands.run(*command[1:], submits=True).strip()
        job_id = answer.splitlines()[-1] if answer else ""
        if _JOB_ID.fullmatch(job_id) is None:
            raise SchedulerError(f"flux submit answered {answer[:80]!r} instead of a job id")
        return job_id

    def outcomes(self, job_ids: Sequence[str]) -> Mapping[str, Run]:
        """Return the jobs' outcomes by id."""
        if not job_ids:
            return {}
        return accounting.parse_outcomes(commands.ask("jobs", *job_ids))

    def ended(self, since_s: float, until_s: float, known: Mapping[str, float]) -> EndedJobs:
        """Return the jobs that ended between two Unix times.

        Only the instance's owner may read other users' jobspecs, which hold Berth's decision id.
        """
        lines = commands.ask_lines(
            "ended",
            f"{since_s:.6f}",
            f"{until_s:.6f}",
            stdin=json.dumps(dict(known)),
            timeout_s=_ENDED_TIMEOUT_S,
        )
        return accounting.parse_ended(lines)

    def is_here(self) -> bool:
        """Return whether this machine has the ``flux`` command."""
        return shutil.which("flux") is not None

    def job_id(self, text: str) -> str | None:
        """Return a Flux job id with ``f`` for ``ƒ``, as Flux prints ids outside UTF-8 locales;
        None: no id.
        """
        return text.replace("ƒ", "f") if _JOB_ID.fullmatch(text) else None

    def stamped(self, job_id: str) -> str | None:
        """Return the decision id in the job's jobspec; None: no decision, or no such job."""
        try:
            return stamped_decision(commands.run("job", "info", job_id, "jobspec"))
        except BerthError:
            return None

    def present_jobs(self) -> tuple[PresentJob, ...]:
        """Return all running and pending jobs, from ``flux jobs``."""
        return present_jobs.ask()

    def past_jobs(self, cluster: str, since_s: float) -> ReadJobs:
        """Return all jobs that ended after a Unix time, from ``flux jobs``."""
        return accounting.past_jobs(cluster, since_s)

    def auto_queue(self, name: str, like: str, facts: ClusterFacts) -> tuple[str, ...]:
        """Return configuration lines for a queue ``name`` with the nodes of queue ``like``.

        The queue requires the properties that all its nodes have and no other node has.
        """
        inside = [set(node.features) for node in facts.nodes if like in node.queues]
        outside = {f for node in facts.nodes if like not in node.queues for f in node.features}
        own = sorted(set.intersection(*inside) - outside) if inside else []
        return (f"[queues.{name}]", f"requires = {json.dumps(own, ensure_ascii=False)}")

    def check_filter(self, site: Site) -> Findings:
        """Check that Flux's configuration agrees with the site file."""
        from berth.plugin.flux.filter import check  # noqa: PLC0415 - doctor only

        return check(site)

    def node_command(self, job: NodeJob) -> tuple[str, ...]:
        """Return the ``flux batch`` command that runs a script exclusively on one node, or
        on two.
        """
        return node_batch(job)

    def slice_config(self, nodes: Mapping[str, Sequence[Layout]], cores: int) -> str:
        """Return Flux configuration with one queue per slice profile; all slices of a node have one
        profile.
        """
        from berth.plugin.flux.mig import configuration  # noqa: PLC0415 - seldom asked for

        return configuration(nodes, cores)

    def workers_commands(self, job: WorkersJob) -> tuple[tuple[str, ...], ...]:
        """Return one ``flux batch`` command per copy of a script."""
        return workers_batches(job)

    def replace_pending(
        self, jobs: Sequence[str], site: Site, *, apply: bool
    ) -> Iterator[Replacing]:
        """Request a new decision for pending jobs. Flux can change only a pending job's queue and
        time limit.
        """
        from berth.plugin.flux.replacing import replace_pending  # noqa: PLC0415 - slow to import

        return replace_pending(jobs, site, apply=apply)
