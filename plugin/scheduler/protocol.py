"""What Berth asks of a scheduler, in nobody's own terms.

A scheduler is read as ``ClusterFacts`` (queues and nodes as they are now); from these come the
candidates' states and a first site file. Jobs go out as a command that ``render`` makes and
``submit`` runs; what became of them comes back as Outcomes. What only some schedulers have
(a jobspec, moving pending jobs, pilot jobs, MIG slices) has a default here that says so in one
sentence. The smallest scheduler names itself and writes the five methods of the first part;
``docs/extending.md`` has one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from berth.pilot.documents import Document
from berth.pilot.errors import UsageError
from berth.plugin.doctor.findings import Findings
from berth.plugin.scheduler.facts import ClusterFacts, ReservationFacts
from berth.plugin.scheduler.jobs import (
    ENDED,
    EndedJobs,
    Job,
    JobNow,
    NodeJob,
    Outcome,
    PresentJob,
    Replacing,
    WorkersJob,
)
from berth.policies.values import Edit, Request

if TYPE_CHECKING:
    from berth.plugin.history.reading import ReadJobs
    from berth.plugin.mig.node import NodeSettings
    from berth.plugin.site.site import Site
    from berth.policies.mig import Layout


class PilotPlan(Protocol):
    """A pilot job, and the real job that waits for it, ready to be submitted."""

    name: str
    """The name of the profile to be."""
    profile: Path

    def shown(self) -> str:
        """Return scripts and commands as shell, for ``--dry-run``."""
        ...

    def submit(self) -> tuple[tuple[str, ...], str | None]:
        """Submit; the ids of the pilot jobs and of the waiting job, where one is asked for."""
        ...


class NoSettings(Document):
    """Settings of schedulers without a table of their own in the site file."""


class Scheduler(Protocol):
    """One kind of scheduler. Its class is what an entry point of ``berth.schedulers`` names.

    All methods raise SchedulerError or ToolMissing where the scheduler cannot be asked, and
    UsageError for what it does not have.
    """

    name: ClassVar[str]
    """Its name in the site file and in the submit protocol: lower case, one word."""
    title: ClassVar[str]
    """Its name in sentences, for example ``Slurm``."""
    queue_word: ClassVar[str] = "queue"
    """Its word for a queue: ``partition``, ``queue``; ``--WORD=auto`` asks Berth to choose."""
    config_file: ClassVar[str] = "the scheduler's configuration"
    """The name, in words, of the file where its queues are defined."""
    daemon_users: ClassVar[tuple[str, ...]] = ()
    """Users that ask the daemon where the site file names none; empty: this scheduler's name."""
    opt_out: ClassVar[str] = "BERTH_WORKLOAD=off"
    """The words that a submitter writes so that Berth leaves one job alone."""
    typed_gpus: ClassVar[bool] = False
    """GPUs and slices have types (``gpu:h100``); else all of a node are counted as ``gpu``."""
    lists_queues: ClassVar[bool] = False
    """A job may name several queues, separated by commas, and starts where it can first."""
    stamps_are_private: ClassVar[bool] = False
    """No user can write, or copy to another job, the stamp that ties a job to its decision."""
    replayed_as: ClassVar[str] = "easy"
    """Which backfill of ``policies.replay`` is most like its own."""
    pair_launcher: ClassVar[str | None] = None
    """Starts a command on both nodes of a job of two, with ``{ranks}`` in all and ``{each}``."""
    job_variable: ClassVar[str | None] = None
    """Environment variable of a running job with its id."""
    settings_type: ClassVar[type[Document]] = NoSettings
    """Its own table in the site file, which bears its name."""

    def __init__(self, settings: Any = None) -> None:
        """Take settings of ``settings_type``; None: its defaults."""

    # Methods that every scheduler implements

    @abstractmethod
    def read(self, *, full: bool = True) -> ClusterFacts:
        """Read the cluster as it is now.

        Not ``full``: without what takes long and does not change, the cluster's name and the
        nodes' memory; the daemon reads so every few seconds.
        """
        ...

    @abstractmethod
    def render(self, job: Job, request: Request, edit: Edit | None) -> tuple[str, ...]:
        """Return the submitting command: the request as asked, with the edit put in."""
        ...

    @abstractmethod
    def submit(self, command: Sequence[str]) -> str:
        """Run a command that ``render`` made; the new job's id."""
        ...

    @abstractmethod
    def outcomes(self, job_ids: Sequence[str]) -> Mapping[str, Outcome]:
        """Return what is known of these jobs; ids that the scheduler has forgotten are absent."""
        ...

    @abstractmethod
    def ended(self, since_s: float, until_s: float, known: Mapping[str, float]) -> EndedJobs:
        """Return jobs of all users that ended between two Unix times, as far as it remembers.

        ``known``: Unix time of the end by job id. A job that ended at that time is left out, so
        that what is costly to ask of a job is asked once.
        """
        ...

    # Methods with a default

    def is_here(self) -> bool:
        """Return whether this machine has its commands: ``berth site init`` asks the first that is
        here."""
        return False

    def job_id(self, text: str) -> str | None:
        """Return the id that ``text`` is, as the store has it; None: it is no id of this
        scheduler."""
        return None

    def stamped(self, job_id: str) -> str | None:
        """Return the id of the decision whose stamp the job carries; None: none, or no longer
        known."""
        return None

    def job_now(self, job_id: str) -> JobNow | None:
        """Return how a job stands, by one short question; None: the scheduler knows it no more."""
        outcome = self.outcomes([job_id]).get(job_id)
        if outcome is None or outcome.state == "unknown":
            return None
        return JobNow(
            outcome.state,
            outcome.queue,
            start_s=outcome.start_s,
            nodes=outcome.nodes,
            elapsed_s=outcome.elapsed_s,
            time_limit_s=outcome.time_limit_s,
        )

    def present_jobs(self) -> tuple[PresentJob, ...]:
        """Return all jobs that run or wait, of all users, as far as we may see them."""
        raise UsageError(f"{self.title} cannot be asked for the jobs that run and wait")

    def reservations(self) -> tuple[ReservationFacts, ...]:
        """Return nodes that are kept from jobs, now or later; none where it has no such thing."""
        return ()

    def past_jobs(self, cluster: str, since_s: float) -> ReadJobs:
        """Return jobs that ended after a Unix time, Berth's and others', from its accounting."""
        raise UsageError(
            f"{self.title} cannot be asked for past jobs", hint="give a file that it wrote"
        )

    def add_scripts(self, read: ReadJobs) -> None:
        """Add digests of the texts of their scripts to jobs of ``past_jobs``, where it has them."""

    def begins_past_jobs(self, line: str) -> bool:
        """Return whether a file whose first line this is holds past jobs as its accounting writes
        them."""
        return False

    def read_past_jobs(
        self, lines: Sequence[str], cluster: str, *, source: str, utc: bool
    ) -> ReadJobs:
        """Return past jobs from such a file; ``utc``: its times are not this machine's local ones.

        Raises DocumentError.
        """
        raise UsageError(f"Berth reads no accounting files of {self.title}")

    def auto_queue(self, name: str, like: str, facts: ClusterFacts) -> tuple[str, ...]:
        """Return lines for ``config_file`` that make a queue ``name`` with the nodes of
        ``like``."""
        return ()

    def check_filter(self, site: Site) -> Findings:
        """Check that the submit filter is installed as the site file says (``site doctor``)."""
        return iter(())

    def check_setup(self, site: Site) -> Findings:
        """Check for ``berth site doctor`` that the scheduler is configured so that Berth can serve
        it."""
        return iter(())

    def jobspec(self, job: Job, request: Request, edit: Edit | None, *, folder: Path) -> str:
        """Return the job as the scheduler's own document, checked by it where it is here."""
        raise UsageError(f"{self.title} has no jobspec")

    def replace_pending(
        self, jobs: Sequence[str], site: Site, *, apply: bool
    ) -> Iterator[Replacing]:
        """Ask the daemon again about pending jobs, all that Berth placed where none is named,
        and move them where ``apply``."""
        raise UsageError(
            f"pending jobs of {self.title} cannot be placed anew",
            hint="cancel the job and submit it again",
        )

    def plan_pilot(
        self, site: Site, command: tuple[str, ...], options: Mapping[str, Any]
    ) -> PilotPlan:
        """Plan the jobs of ``berth pilot submit``; ``options``: as its command line has them."""
        raise UsageError(
            f"pilot jobs cannot be submitted to {self.title}",
            hint="run berth pilot run inside a job, then berth workload add",
        )

    def slice_config(self, nodes: Mapping[str, Sequence[Layout]], cores: int) -> str:
        """Return the configuration of nodes (``cores`` cores each) that are cut into slices: GPUs
        by node.

        Raises UsageError, or PlanRefused for a node that jobs could not choose.
        """
        raise UsageError(
            f"{self.title} needs no configuration of its own for a plan",
            hint="berth mig apply on each node writes what it needs",
        )

    def node_command(self, job: NodeJob) -> tuple[str, ...]:
        """Return the command for ``submit`` that runs a script alone on one node, or on two."""
        raise UsageError(
            f"nodes of {self.title} cannot be measured by jobs",
            hint="run berth pilot node there, then berth site calibrate --measured FILE",
        )

    def workers_commands(self, job: WorkersJob) -> tuple[tuple[str, ...], ...]:
        """Return the commands for ``submit`` that run copies of a script: one array, or a job
        each."""
        raise UsageError(
            f"workers cannot be submitted to {self.title}",
            hint="start them by hand, on any machine that sees the folder",
        )

    def any_left(self, job_ids: Sequence[str]) -> bool:
        """Return whether any of these jobs, or any task of those that are arrays, waits or runs."""
        known = self.outcomes(job_ids)
        return any(known[job].state not in ENDED if job in known else True for job in job_ids)

    def waiting_for(self, pilot_job: str) -> str | None:
        """Return the pending job of this user that waits for the pilot job's end; None: there is
        none."""
        return None

    def change_waiting(self, job_id: str, request: Request, edit: Edit) -> None:
        """Put ``edit`` into a pending job, or leave it as it is and raise SchedulerError."""
        raise UsageError(f"pending jobs of {self.title} cannot be changed")

    def mig_settings(self) -> type[NodeSettings]:
        """Return its table in ``mig.toml``: how a node of this scheduler gives out MIG slices."""
        raise UsageError(f"Berth does not cut the GPUs of nodes under {self.title}")
