"""The interface that every scheduler implements, in terms that are the same for all schedulers.

A scheduler is read as ``ClusterFacts`` (queues and nodes as they are now), from which Berth
computes the candidates' states and a first site file. ``render`` returns the command that submits
a job, and ``submit`` runs that command; ``outcomes`` returns how jobs ended. Features that only
some schedulers have (a jobspec, moving pending jobs, pilot jobs, MIG slices) have a default method
here, which raises UsageError with one sentence. The smallest scheduler sets its name and implements
the five methods of the first part; ``docs/extending.md`` shows an example.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from berth.pilot.documents import Document
from berth.pilot.errors import UsageError
from berth.pilot.run import ENDED, Run
from berth.plugin.findings import Findings
from berth.plugin.scheduler.facts import ClusterFacts, ReservationFacts
from berth.plugin.scheduler.jobs import (
    EndedJobs,
    Job,
    JobNow,
    NodeJob,
    PresentJob,
    Replacing,
    WorkersJob,
)
from berth.plugin.scheduler.past_jobs import ReadJobs
from berth.plugin.site.schedulers import SchedulerTraits
from berth.plugin.site.site import Site
from berth.policies.values import Edit, Request

if TYPE_CHECKING:
    from berth.policies.mig import Layout


class PilotPlan(Protocol):
    """A pilot job, and the job that depends on it, ready to be submitted."""

    name: str
    """The name of the profile that the pilot job will write."""
    profile: Path

    def shown(self) -> str:
        """Return the scripts and commands as shell text, for ``--dry-run``."""
        ...

    def submit(self) -> tuple[tuple[str, ...], str | None]:
        """Submit the planned jobs; return the ids of the pilot jobs, and of the dependent job or
        None.
        """
        ...


class Scheduler(SchedulerTraits, Protocol):
    """The interface to one scheduler, such as Slurm.

    An entry point of the group ``berth.schedulers`` names the class. All methods raise
    SchedulerError or ToolMissing where the scheduler cannot be reached, and UsageError for a
    feature that the scheduler lacks.
    """

    def __init__(self, settings: Any = None) -> None:
        """Take settings of ``settings_type``; None: the default settings."""

    # Methods that every scheduler implements

    @abstractmethod
    def read(self, *, full: bool = True) -> ClusterFacts:
        """Read queues and nodes as they are now.

        ``full=False`` leaves out facts that are slow to read and do not change: the cluster's name
        and the nodes' memory. The daemon reads this short form every few seconds.
        """
        ...

    @abstractmethod
    def render(self, job: Job, request: Request, edit: Edit | None) -> tuple[str, ...]:
        """Return the submit command for the request, with the decision's edit applied."""
        ...

    @abstractmethod
    def submit(self, command: Sequence[str]) -> str:
        """Run a command that ``render`` returned; return the new job's id."""
        ...

    @abstractmethod
    def outcomes(self, job_ids: Sequence[str]) -> Mapping[str, Run]:
        """Return the outcomes of these jobs by id; forgotten ids are absent."""
        ...

    @abstractmethod
    def ended(self, since_s: float, until_s: float, known: Mapping[str, float]) -> EndedJobs:
        """Return jobs of all users that ended between two Unix times, as far as the scheduler
        knows.

        ``known``: Unix time of the end by job id. A job that ended at its known time is left out,
        so that details which are slow to read are read once per job.
        """
        ...

    # Methods with a default

    def is_here(self) -> bool:
        """Return whether this machine has the scheduler's commands.

        ``berth site init`` uses the first scheduler that returns True.
        """
        return False

    def why_silent(self) -> str | None:
        """Return within about two seconds why the scheduler does not answer; None: it answers, or
        it cannot be told so fast.
        """
        return None

    def job_id(self, text: str) -> str | None:
        """Return ``text`` as a job id in the store's form; None: ``text`` is not an id of this
        scheduler.
        """
        return None

    def stamped(self, job_id: str) -> str | None:
        """Return the id of Berth's decision from the job's comment; None: no decision, or no such
        job.
        """
        return None

    def job_now(self, job_id: str) -> JobNow | None:
        """Return a job's present state by one fast query; None: the scheduler no longer knows the
        job.
        """
        outcome = self.outcomes([job_id]).get(job_id)
        if outcome is None or outcome.state == "unknown":
            return None
        return JobNow(
            outcome.state,
            outcome.partition,
            start_s=outcome.start_s,
            nodes=outcome.node_list,
            elapsed_s=outcome.elapsed_s,
            time_limit_s=outcome.time_limit_s,
        )

    def present_jobs(self) -> tuple[PresentJob, ...]:
        """Return all running and pending jobs of all users, as far as this user may see them."""
        raise UsageError(f"{self.title} cannot be asked for the jobs that run and wait")

    def reservations(self) -> tuple[ReservationFacts, ...]:
        """Return present and future reservations of nodes; empty where the scheduler has none."""
        return ()

    def past_jobs(self, cluster: str, since_s: float) -> ReadJobs:
        """Return all jobs that ended after a Unix time, placed by Berth or not, from the
        accounting.
        """
        raise UsageError(
            f"{self.title} cannot be asked for past jobs", hint="give a file that it wrote"
        )

    def add_scripts(self, read: ReadJobs) -> None:
        """Add digests of the job scripts to the jobs of ``past_jobs``, where the scheduler stores
        them.
        """

    def auto_queue(self, name: str, like: str, facts: ClusterFacts) -> tuple[str, ...]:
        """Return lines for ``config_file`` that define a queue ``name`` with the nodes of queue
        ``like``.
        """
        return ()

    def check_filter(self, site: Site) -> Findings:
        """Check for ``berth site doctor`` that the submit filter is installed as the site file
        says.
        """
        return iter(())

    def check_setup(self, site: Site) -> Findings:
        """Check for ``berth site doctor`` that the scheduler's configuration allows Berth to place
        jobs.
        """
        return iter(())

    def replace_pending(
        self, jobs: Sequence[str], site: Site, *, apply: bool
    ) -> Iterator[Replacing]:
        """Request a new decision for each pending job, and move the job if ``apply``.

        ``jobs`` empty: all pending jobs that Berth placed.
        """
        raise UsageError(
            f"pending jobs of {self.title} cannot be placed anew",
            hint="cancel the job and submit it again",
        )

    def plan_pilot(
        self, site: Site, command: tuple[str, ...], options: Mapping[str, Any]
    ) -> PilotPlan:
        """Plan the jobs of ``berth pilot submit``; ``options``: that command's options by name."""
        raise UsageError(
            f"pilot jobs cannot be submitted to {self.title}",
            hint="run berth pilot run inside a job, then berth workload add",
        )

    def slice_config(self, nodes: Mapping[str, Sequence[Layout]], cores: int) -> str:
        """Return the scheduler's configuration for nodes whose GPUs are partitioned into slices.

        ``nodes``: the layout of each GPU, by node name; ``cores``: cores per node. Raises
        UsageError, or PlanRefused for a node that jobs could not select.
        """
        raise UsageError(
            f"{self.title} needs no configuration of its own for a plan",
            hint="berth mig apply on each node writes what it needs",
        )

    def node_command(self, job: NodeJob) -> tuple[str, ...]:
        """Return the command for ``submit`` that runs a script alone on one node, or on a pair of
        nodes.
        """
        raise UsageError(
            f"nodes of {self.title} cannot be measured by jobs",
            hint="run berth pilot node there, then berth site calibrate --measured FILE",
        )

    def workers_commands(self, job: WorkersJob) -> tuple[tuple[str, ...], ...]:
        """Return commands for ``submit`` that run copies of a script: one array, or one job per
        copy.
        """
        raise UsageError(
            f"workers cannot be submitted to {self.title}",
            hint="start them by hand, on any machine that sees the folder",
        )

    def any_left(self, job_ids: Sequence[str]) -> bool:
        """Return whether any of these jobs, or any task of a job array among them, is pending or
        running.
        """
        known = self.outcomes(job_ids)
        return any(known[job].state not in ENDED if job in known else True for job in job_ids)

    def waiting_for(self, pilot_job: str) -> str | None:
        """Return this user's pending job that depends on the pilot job's end; None: no such job."""
        return None

    def change_waiting(self, job_id: str, request: Request, edit: Edit) -> None:
        """Apply ``edit`` to a pending job. On failure the job is unchanged and SchedulerError is
        raised.
        """
        raise UsageError(f"pending jobs of {self.title} cannot be changed")

    def mig_settings(self) -> type[Document]:
        """Return the type of the scheduler's table in ``mig.toml``, a ``mig.node.NodeSettings``:
        how a node offers slices to jobs.
        """
        raise UsageError(f"Berth does not cut the GPUs of nodes under {self.title}")
