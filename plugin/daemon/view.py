"""What the answering thread needs of a site file, ready for use; replaced whole on reload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from berth.plugin.daemon.messages import Job
from berth.plugin.host import HOST, Files
from berth.plugin.right_sizing.guard import Guard
from berth.plugin.scheduler import Scheduler
from berth.plugin.site.site import RightSizing, Show
from berth.policies.decide import Decider
from berth.policies.values import CandidateState, DefaultMemory, Mode


class Kept(NamedTuple):
    """Why a job is left as it is: a stable code and a sentence."""

    code: str
    sentence: str


Coverage = Callable[[Job], Kept | None]
"""None where the site lets Berth look at this job."""


@dataclass(frozen=True, slots=True)
class SiteView:
    """The site file as far as answering needs it."""

    mode: Mode
    decider: Decider
    covers: Coverage
    schedulers: Mapping[str, type[Scheduler]]
    """Whose filters may ask, by name."""
    auto_queue: str | None = None
    kill_switch: Path | None = None
    right_sizing: RightSizing = field(default_factory=RightSizing)
    show: Show = Show.CHANGED
    """Which decisions users are told."""
    slice_queues: Mapping[str, tuple[str, ...]] = field(init=False)
    """Candidates that give MIG slices by type, by their queue."""
    changes_shapes: bool = field(init=False)
    """Whether the site says of any place that the shape of jobs may change there."""

    def __post_init__(self) -> None:
        found: dict[str, tuple[str, ...]] = {}
        for c in self.decider.candidates:
            if c.slice_of is not None and ":" in (c.gres or ""):
                found[c.queue] = (*found.get(c.queue, ()), c.name)
        object.__setattr__(self, "slice_queues", MappingProxyType(found))
        may = any(c.translation.keep_tasks is False for c in self.decider.candidates)
        object.__setattr__(self, "changes_shapes", may)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The candidates' states of one reading, and both clocks at that moment.

    Ages are by the monotonic clock: a wall clock that is set back or forth neither makes
    a fresh state stale nor a stale one fresh.
    """

    states: Mapping[str, CandidateState] = field(default_factory=lambda: MappingProxyType({}))
    wall_s: float = 0.0
    monotonic_s: float = 0.0
    guard: Guard = field(default_factory=Guard)
    """Whether somebody gives jobs their memory back."""
    default_memory: Mapping[str | None, DefaultMemory] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """What a job that asks for no memory holds, by queue; None: it names no queue."""

    def now_s(self, monotonic_s: float) -> float:
        """Unix time at ``monotonic_s`` by the wall clock of the reading."""
        return self.wall_s + (monotonic_s - self.monotonic_s)


def killed(switch: Path | None, files: Files = HOST.files) -> bool:
    """Return whether the kill switch is there. One that cannot be looked at stops us, too."""
    if switch is None:
        return False
    try:
        return files.exists(switch)
    except OSError:
        return True
