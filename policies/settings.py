"""The policy settings of a site, read from the ``[policy]`` table of the site file."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

_ROUNDING = 1e-9
"""Slack in log for the rounding of an interval that is exactly as wide as allowed."""


class SliceAim(StrEnum):
    """Which of the suitable MIG slices of a GPU model the objective may choose from."""

    SMALLEST = "smallest"
    """Only the slice that takes the smallest fraction of the GPU."""
    THROUGHPUT = "throughput"
    """Only the slice with the most predicted work per fraction of the GPU that it takes."""
    OBJECTIVE = "objective"
    """All suitable slices: the objective decides."""


class UntypedGpus(StrEnum):
    """How Berth treats ``--gres=gpu:1``, which names no GPU type, on nodes with MIG slices."""

    TYPE = "type"
    """Berth adds the type of the slice that it chooses."""
    LEAVE = "leave"
    """The request stays as written, and Berth sends no such job to slices."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Exponents of the balanced objective, and the weight of expected waiting."""

    time: float = 1.0
    cost: float = 1.0
    wait: float = 1.0
    """Seconds of predicted time that one second of expected waiting counts as; 0: waiting is
    ignored."""
    energy: float = 0.0


@dataclass(frozen=True, slots=True)
class FitSettings:
    """Which jobs without a usable prediction get the queues where they fit as written."""

    on: bool = False
    unnamed_queue: bool = False
    """True: also jobs that name no queue, not only those that let Berth choose."""


@dataclass(frozen=True, slots=True)
class GateSettings:
    """What a moved job may lose against where it was submitted (``policies.gate``)."""

    bill_factor: float = 1.0
    """Largest ratio of what the job is billed, for its predicted time where that is known."""
    shorter_limit: bool = False
    preemptible: bool = False
    lower_priority: bool = False
    shared_cores: bool = False
    whole_nodes: bool = False
    hardware_threads: bool = False
    """True: hardware threads count as cores."""
    less_memory: bool = False
    added_gpus: bool = True


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The policy of a site. ``strict`` is true for the submit filter.

    Not strict (a person sees the answer before anything happens): a prediction without data for the
    platform, a prediction that abstains, a wide interval and an unknown state become warnings
    instead of exclusions.
    """

    objective: str = "fastest"
    """Name of the objective, one of ``OBJECTIVES``."""
    weights: Weights = Weights()
    strict: bool = True
    allow_prior: bool = False
    may_raise_time_limit: bool = False
    time_margin: float = 1.0
    """Factor on the upper predicted time before it is compared with a time limit."""
    max_interval_ratio: float = 30.0
    """Largest ratio of upper to lower bound of a prediction on which Berth acts.

    The interval is that of the comparison with other places: the error that the predictions of all
    places share is not in it. 30 is about a factor of 5.5 either way. Time limits are checked with
    the upper bound of the time itself, so a wide interval makes placements worse but kills no jobs.
    """
    stale_after_s: float = 120.0
    list_queues: bool = False
    """True: the scheduler accepts several queues for a job and starts the job in the first queue
    with room."""
    alike_within: float = 1.25
    """Largest ratio of a candidate's score to the best score at which both are listed together.

    Their intervals must overlap as well. 1: never.
    """
    slices: SliceAim = SliceAim.SMALLEST
    untyped_gpus: UntypedGpus = UntypedGpus.TYPE
    deadline_limits: float | None = None
    """Objective deadline: deadline of a job without one of its own, as a multiple of its time
    limit, counted from submission. None: such a job has no deadline."""
    fit: FitSettings = FitSettings()
    gate: GateSettings = GateSettings()
    control: float = field(default=0.0, repr=False)
    """Share of the jobs with edits that the daemon leaves as written, to compare the others with.

    The daemon draws them; no choice of a place depends on it, so it is in no digest.
    """

    def too_wide(self, half_log_width: float) -> bool:
        """Return whether an interval of this half width in natural log is wider than
        ``max_interval_ratio``."""
        return 2 * half_log_width > math.log(self.max_interval_ratio) + _ROUNDING

    @property
    def lists(self) -> bool:
        """Return whether a job may be given several queues."""
        return self.list_queues and self.alike_within > 1
