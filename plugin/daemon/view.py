"""The parts of the site file and of the cluster's state that the answering thread uses.

On a reload the objects are replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from berth.plugin.daemon.memory_guard import Guard
from berth.plugin.host import HOST, Files
from berth.plugin.site.document import Coverage, RightSizing, Show, SlicesFromUse
from berth.plugin.site.programs import SHIPPED_ONLY, ProgramRules
from berth.plugin.site.schedulers import SchedulerTraits
from berth.policies.decide import Decider
from berth.policies.values import CandidateState, Mode, OwnQueue
from berth.predictor.hardware.mig.slices import MARK


class Kept(NamedTuple):
    """Why a job is left unchanged: a stable code and a sentence."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True)
class SiteView:
    """The parts of the site file that the answering thread needs."""

    mode: Mode
    decider: Decider
    coverage: Coverage
    schedulers: Mapping[str, type[SchedulerTraits]]
    """Schedulers whose filters may send requests, by name."""
    auto_queue: str | None = None
    fit_mode: Mode = Mode.ENFORCE
    """The strongest mode for jobs that are placed by fit alone."""
    kill_switch: Path | None = None
    right_sizing: RightSizing = field(default_factory=RightSizing)
    slices_from_use: SlicesFromUse = field(default_factory=SlicesFromUse)
    programs: ProgramRules = SHIPPED_ONLY
    """How the programs of jobs are recognised."""
    show: Show = Show.CHANGED
    """Which decisions are reported to users."""
    slice_queues: Mapping[str, tuple[str, ...]] = field(init=False)
    """Names of candidates that give MIG slices by GPU type, by queue."""
    has_slices: bool = field(init=False)
    """Whether any candidate is, or is on, a MIG slice."""
    changes_shapes: bool = field(init=False)
    """Whether the site allows, for any candidate, changing a job's number of tasks."""

    def __post_init__(self) -> None:
        slice_queues: dict[str, tuple[str, ...]] = {}
        for c in self.decider.candidates:
            if c.slice_of is not None and ":" in (c.gres or ""):
                slice_queues[c.queue] = (*slice_queues.get(c.queue, ()), c.name)
        object.__setattr__(self, "slice_queues", MappingProxyType(slice_queues))
        slices = any(c.slice_of is not None or MARK in c.platform for c in self.decider.candidates)
        object.__setattr__(self, "has_slices", slices)
        may = any(c.translation.keep_tasks is False for c in self.decider.candidates)
        object.__setattr__(self, "changes_shapes", may)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The candidates' states from one reading, with the wall and monotonic clocks at that moment.

    Ages are computed by the monotonic clock, so that setting the wall clock changes no state's age.
    """

    states: Mapping[str, CandidateState] = field(default_factory=lambda: MappingProxyType({}))
    wall_s: float = 0.0
    monotonic_s: float = 0.0
    guard: Guard = field(default_factory=Guard)
    """Whether the helper that restores jobs' memory requests is running."""
    own_queues: Mapping[str | None, OwnQueue] = field(default_factory=lambda: MappingProxyType({}))
    """What a job gets that is left where it was submitted, by queue; key None: no queue named."""

    def now_s(self, monotonic_s: float) -> float:
        """Return the Unix time at ``monotonic_s``, by the wall clock of the reading."""
        return self.wall_s + (monotonic_s - self.monotonic_s)


def killed(switch: Path | None, files: Files = HOST.files) -> bool:
    """Return whether the kill switch file exists; True also where that cannot be determined."""
    if switch is None:
        return False
    try:
        return files.exists(switch)
    except OSError:
        return True
