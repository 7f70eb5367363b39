"""The Site: what the site file says, as the values that policies and the daemon work with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from berth.pilot.documents import Document
from berth.pilot.platform import Platform
from berth.policies.codes import Code
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, Mode


class Show(StrEnum):
    """Which decisions are told to users when they submit."""

    CHANGED = "changed"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    """Where the daemon listens and writes, and how patient everybody is."""

    socket: Path
    user_socket: Path
    admins: tuple[str, ...]
    open_sharing: bool
    """A user's workload may serve all users without an admin's approval."""
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
    """Names taken in (empty: all) and left out."""

    include: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()

    def admits(self, name: str | None) -> bool:
        """Tell whether ``name`` is taken in; a missing name is, unless names are listed."""
        if name is None:
            return not self.include
        return name not in self.exclude and (not self.include or name in self.include)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which jobs Berth looks at."""

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
        """Return the code and sentence why such a job is not looked at; None: it is.

        ``asked``: the user asked Berth to choose (the auto partition): no matter of partitions.
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
    """What finished jobs may change."""

    enabled: bool = True
    period_s: float = 20.0
    everybody: bool = False
    """Jobs of all users move everybody's forecasts of shared workloads."""


@dataclass(frozen=True, slots=True)
class RightSizing:
    """What the site wants done about memory requests that are far too large."""

    advise: bool = True
    users: frozenset[str] = frozenset()
    """Whose requests are made smaller, with ``accounts`` and ``programs``."""
    accounts: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()
    """Names of workloads, or of jobs (digits as ``#``)."""


@dataclass(frozen=True, slots=True)
class Site:
    """One site file, checked and resolved."""

    source: str
    """The file it is from, or a name for it."""
    digest: str
    """Digest of the file's text and the platforms it uses."""
    name: str
    scheduler: str
    """Its registered name."""
    mode: Mode
    currency: str
    reference_platform: str | None
    reference_queue: str | None
    auto_queue: str | None
    policy: PolicySettings
    daemon: DaemonSettings
    coverage: Coverage
    platforms: Mapping[str, Platform]
    """Platforms that candidates and the reference use, with the site's prices."""
    candidates: tuple[Candidate, ...]
    bundles: tuple[Path, ...] = ()
    """Folders of bundles in place of shipped ones."""
    learning: LearningSettings = LearningSettings()
    right_sizing: RightSizing = RightSizing()
    show: Show = Show.CHANGED
    scheduler_settings: Document | None = None
    """The scheduler's own table; None: its defaults."""
    carbon_file: Path | None = None
    """What the carbon intensity was read from, where it is a file."""

    @property
    def reference_candidate(self) -> Candidate | None:
        """Return the place that pilot jobs run in; None: no candidate is in that queue."""
        in_queue = [c for c in self.candidates if c.queue == self.reference_queue and not c.is_gpu]
        return next((c for c in in_queue if c.platform == self.reference_platform), None)
