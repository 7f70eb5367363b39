"""Implements the Scheduler protocol for Slurm."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from berth.pilot.documents import Document
from berth.pilot.errors import BerthError, SchedulerError
from berth.pilot.run import Run
from berth.plugin.findings import Findings
from berth.plugin.scheduler import (
    ClusterFacts,
    EndedJobs,
    Job,
    JobNow,
    NodeJob,
    PresentJob,
    ReservationFacts,
    Scheduler,
    WorkersJob,
    stamped_decision,
)
from berth.plugin.scheduler.protocol import PilotPlan
from berth.plugin.slurm import (
    accounting,
    cluster,
    commands,
    pilot_tail,
    present_jobs,
    submitted,
)
from berth.plugin.slurm.commands import read_configuration
from berth.plugin.slurm.partitions import auto_partition_line, preempted_by_qos
from berth.plugin.slurm.render import node_sbatch, sbatch, workers_sbatch
from berth.plugin.slurm.rights import Accounts, RightsReader
from berth.policies.values import Edit, Request

if TYPE_CHECKING:
    from berth.plugin.scheduler.past_jobs import ReadJobs
    from berth.plugin.site.site import Site


ACCOUNTS_REFRESH_S = 60.0
"""Seconds between two readings of associations and QOS (``sacctmgr``)."""
_NOT_ENDED = "PD,CF,R,CG,S,ST,RQ,RH,SI,SO"


class Slurm(Scheduler):
    """The Scheduler for Slurm. Each call queries Slurm again, except that account limits are
    cached.
    """

    name = "slurm"
    title = "Slurm"
    queue_word = "partition"
    config_file = "slurm.conf"
    opt_out = "--comment=berth:off"
    typed_gpus = True
    lists_queues = True
    # The decision id is in AdminComment, which users cannot write. A requeued job keeps it, while
    # Slurm gives the job a new submission time.
    stamps_are_private = True
    replayed_as = "replanned"
    pair_launcher = "srun --nodes=2 --ntasks={ranks} --ntasks-per-node={each}"
    job_variable = "SLURM_JOB_ID"

    def __init__(self, settings: Any = None) -> None:
        """Take no settings: Slurm has no table in the site file."""
        self._rights = RightsReader(ACCOUNTS_REFRESH_S)

    def read(self, *, full: bool = True) -> ClusterFacts:
        """Read partitions and nodes as they are now, by Slurm's commands."""
        facts = cluster.read_cluster()
        rights = self._rights.of(facts)
        facts = replace(facts, rights=rights)
        if isinstance(rights, Accounts) and rights.preempted:
            facts = replace(facts, queues=preempted_by_qos(facts.queues, rights.preempted))
        if not full:
            return facts
        return replace(facts, name=read_configuration().get("ClusterName") or self.name)

    def render(self, job: Job, request: Request, edit: Edit | None) -> tuple[str, ...]:
        """Return the ``sbatch`` command for the request, with the decision's edit applied."""
        return sbatch(job, request, edit)

    def submit(self, command: Sequence[str]) -> str:
        """Run an ``sbatch`` command and return the job's id. Raises SchedulerError with Slurm's own
        message where Slurm refuses the job.
        """
        answer = commands.run((command[0], "--parsable", *command[1:]), submits=True)
        job_id = answer.strip().split(";")[0]
        if re.fullmatch(r"\d+", job_id) is None:
            raise SchedulerError(f"sbatch answered {answer.strip()[:80]!r} instead of a job id")
        return job_id

    def outcomes(self, job_ids: Sequence[str]) -> Mapping[str, Run]:
        """Return the jobs' outcomes by id: from accounting, or else from what slurmctld
        remembers.
        """
        return accounting.of_jobs(job_ids)

    def ended(self, since_s: float, until_s: float, known: Mapping[str, float]) -> EndedJobs:
        """Return the jobs that ended between two Unix times.

        Without accounting slurmctld is asked, which forgets a job MinJobAge seconds after its end.
        """
        return accounting.ended(since_s, until_s, known)

    def is_here(self) -> bool:
        """Return whether this machine has Slurm's commands."""
        return shutil.which("sinfo") is not None

    def job_id(self, text: str) -> str | None:
        """Return ``text`` where it is a Slurm job id, with or without an array task (``7_2``); else
        None.
        """
        return text if re.fullmatch(r"[0-9]+(_[0-9]+)?", text) else None

    def stamped(self, job_id: str) -> str | None:
        """Return the decision id in the job's AdminComment, from slurmctld or else from accounting;
        None: no decision.
        """
        for words in (
            ("squeue", "-h", "-a", "-t", "all", "-j", job_id, "-O", "admin_comment:512"),
            ("sacct", "-a", "-n", "-X", "-P", "-o", "AdminComment", "-j", job_id),
        ):
            try:
                decision = stamped_decision(commands.run(words))
            except BerthError:
                continue
            if decision is not None:
                return decision
        return None

    def job_now(self, job_id: str) -> JobNow | None:
        """Return a job's present state from squeue, which knows a job for MinJobAge seconds after
        its end; None: unknown job.
        """
        return present_jobs.job_now(job_id)

    def present_jobs(self) -> tuple[PresentJob, ...]:
        """Return all running and pending jobs, from squeue."""
        return present_jobs.ask()

    def why_silent(self) -> str | None:
        """Return which controllers ``scontrol ping`` finds down; None: one is up."""
        return cluster.why_silent()

    def reservations(self) -> tuple[ReservationFacts, ...]:
        """Return present and future reservations of whole nodes, from scontrol."""
        return cluster.read_reservations()

    def past_jobs(self, cluster: str, since_s: float) -> ReadJobs:
        """Return all jobs that ended after a Unix time, from sacct."""
        return accounting.past_jobs(cluster, since_s)

    def add_scripts(self, read: ReadJobs) -> None:
        """Add digests of job scripts, from ``sacct --batch-script``, where the site stores
        scripts.
        """
        submitted.add_scripts(read)

    def auto_queue(self, name: str, like: str, facts: ClusterFacts) -> tuple[str, ...]:
        """Return the slurm.conf line that defines a partition ``name`` with the nodes of all
        partitions for users, and the default time limit of partition ``like``."""
        return (auto_partition_line(name, like, facts),)

    def check_filter(self, site: Site) -> Findings:
        """Check that ``filter.conf`` agrees with the site file."""
        from berth.plugin.slurm.filter import check  # noqa: PLC0415 - doctor only

        return check(site)

    def check_setup(self, site: Site) -> Findings:
        """Check slurm.conf, its Lua plugin, munge, and the controller's version and clock."""
        from berth.plugin.slurm.checks import check_setup  # noqa: PLC0415 - doctor only

        return check_setup(site)

    def plan_pilot(
        self, site: Site, command: tuple[str, ...], options: Mapping[str, Any]
    ) -> PilotPlan:
        """Plan the pilot jobs; the real job depends on the last pilot job by ``afterany``."""
        from berth.plugin.slurm.pilot_plan import SlurmPilot  # noqa: PLC0415 - seldom asked for

        return SlurmPilot(site, command, options, self.submit)

    def node_command(self, job: NodeJob) -> tuple[str, ...]:
        """Return the ``sbatch`` command that runs a script exclusively on one node, or on two."""
        return node_sbatch(job)

    def workers_commands(self, job: WorkersJob) -> tuple[tuple[str, ...], ...]:
        """Return the ``sbatch`` command of one job array that runs copies of a script."""
        return (workers_sbatch(job),)

    def any_left(self, job_ids: Sequence[str]) -> bool:
        """Return whether any of these jobs is pending or running; jobs unknown to slurmctld have
        ended.
        """
        words = ("squeue", "-h", "-a", "-t", _NOT_ENDED, "-j", ",".join(job_ids), "-o", "%i")
        try:
            return bool(commands.run(words).strip())
        except SchedulerError as error:
            if "Invalid job id" in error.message:
                return False
            raise

    def waiting_for(self, pilot_job: str) -> str | None:
        """Return this user's pending job that depends on the pilot job; None: no such job."""
        return pilot_tail.waiting_for(pilot_job)

    def change_waiting(self, job_id: str, request: Request, edit: Edit) -> None:
        """Apply ``edit`` to a pending job after ``sbatch --test-only`` accepted it; restore the job
        on failure.
        """
        pilot_tail.apply(job_id, pilot_tail.change_of(request, edit))

    def mig_settings(self) -> type[Document]:
        """Return the type of the ``[slurm]`` table in ``mig.toml``."""
        from berth.plugin.slurm.mig.node import SlurmNode  # noqa: PLC0415 - MIG commands only

        return SlurmNode
