"""The Site: the validated content of the site file, as policies and the daemon use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from berth.pilot.documents import Document
from berth.pilot.platform import Platform
from berth.pilot.usage.at_job_end import SPOOL
from berth.plugin.history.programs import SHIPPED_ONLY, ProgramRules
from berth.policies.codes import Code
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, Mode


class Show(StrEnum):
    """Which decisions are reported to users at submission."""

    CHANGED = "changed"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    """The daemon's paths, users, intervals and limits."""

    socket: Path
    user_socket: Path
    admins: tuple[str, ...]
    open_sharing: bool
    """Whether a user's workload may serve all users without an admin's approval."""
    workloads_per_user: int
    store: str
    deadline_ms: int
    kill_switch: Path
    scheduler_users: tuple[str, ...]
    state_refresh_s: float
    outcomes_refresh_s: float
    waits_refresh_s: float
    breaker_failures: int
    breaker_open_s: float
    ruled_out: Path = Path("/var/lib/berth-putback/ruled-out.json")


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Included names (empty: all names) and excluded names."""

    include: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()

    def admits(self, name: str | None) -> bool:
        """Return whether ``name`` passes the filter; None passes unless ``include`` lists names."""
        if name is None:
            return not self.include
        return name not in self.exclude and (not self.include or name in self.include)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which jobs Berth handles, by user, account, queue and kind of job."""

    users: NameFilter = NameFilter()
    accounts: NameFilter = NameFilter()
    queues: NameFilter = NameFilter()
    unnamed_queue: bool = True
    interactive: bool = False
    arrays: bool = True
    het: bool = False

    def why_not(
        self,
        *,
        user: str,
        account: str | None,
        queue: str | None,
        asked: bool = False,
        interactive: bool = False,
        array: bool = False,
        het: bool = False,
    ) -> tuple[Code, str] | None:
        """Return the code and message why Berth does not handle such a job; None: Berth handles it.

        ``asked``: the user chose the auto partition, so the filter for partitions does not apply.
        """
        if not self.users.admits(user):
            return Code.NOT_COVERED_USER, f"This site's Berth does not look at jobs of {user}."
        if not self.accounts.admits(account):
            return (
                Code.NOT_COVERED_ACCOUNT,
                f"This site's Berth does not look at jobs of account {account or '(none)'}.",
            )
        named = self.unnamed_queue if queue is None else self.queues.admits(queue)
        if not asked and not named:
            return (
                Code.NOT_COVERED_QUEUE,
                f"This site's Berth does not look at jobs for {queue or 'the default partition'}.",
            )
        kinds = ((interactive, self.interactive, "interactive"), (array, self.arrays, "array"))
        for is_one, covered, word in (*kinds, (het, self.het, "heterogeneous")):
            if is_one and not covered:
                return Code.NOT_COVERED_KIND, f"This site's Berth does not look at {word} jobs."
        return None


@dataclass(frozen=True, slots=True)
class LearningSettings:
    """Settings for learning from finished jobs."""

    enabled: bool = True
    period_s: float = 20.0
    everybody: bool = False
    """Whether all users' jobs adjust the forecasts that everybody gets for shared workloads."""


@dataclass(frozen=True, slots=True)
class RightSizing:
    """How the site treats memory requests that are far above the measured need."""

    advise: bool = True
    users: frozenset[str] = frozenset()
    """Users whose memory requests are reduced; ``accounts`` and ``programs`` likewise."""
    accounts: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()
    """Names of workloads, or of jobs (with digits as ``#``)."""


@dataclass(frozen=True, slots=True)
class SlicesFromUse:
    """Whose jobs, known from past jobs alone, go to MIG slices by what they used of whole GPUs."""

    everybody: bool = False
    users: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()
    """Names of workloads, or of jobs (with digits as ``#``)."""


@dataclass(frozen=True, slots=True)
class PassivePilots:
    """Which jobs the nodes count by perf while they run."""

    one_in: int = 0
    """One in so many jobs of the listed users; 0: none."""
    spool: Path = Path(SPOOL)


@dataclass(frozen=True, slots=True)
class Site:
    """The content of one site file, validated, with all references resolved."""

    source: str
    """Path of the file, or a name for the Site's origin."""
    digest: str
    """Digest of the file's text and of the platforms that it uses."""
    name: str
    scheduler: str
    """The scheduler's registered name."""
    mode: Mode
    currency: str
    reference_platform: str | None
    reference_queue: str | None
    auto_queue: str | None
    policy: PolicySettings
    daemon: DaemonSettings
    coverage: Coverage
    platforms: Mapping[str, Platform]
    """Platforms of the candidates and the reference, with the site's prices."""
    candidates: tuple[Candidate, ...]
    fit_mode: Mode = Mode.ENFORCE
    """The strongest mode for jobs that are placed by fit alone."""
    bundles: tuple[Path, ...] = ()
    """Folders of bundles that replace shipped ones."""
    learning: LearningSettings = LearningSettings()
    right_sizing: RightSizing = RightSizing()
    slices_from_use: SlicesFromUse = SlicesFromUse()
    passive_pilots: PassivePilots = PassivePilots()
    programs: ProgramRules = SHIPPED_ONLY
    """How the programs of jobs are recognised."""
    show: Show = Show.CHANGED
    scheduler_settings: Document | None = None
    """The site file's table for its scheduler; None: defaults apply."""
    carbon_file: Path | None = None
    """The file of carbon intensities, where the site uses one."""

    @property
    def reference_candidate(self) -> Candidate | None:
        """Return the candidate in the reference queue where pilot jobs run; None: there is no such
        candidate.
        """
        in_queue = [c for c in self.candidates if c.queue == self.reference_queue and not c.is_gpu]
        return next((c for c in in_queue if c.platform == self.reference_platform), None)
