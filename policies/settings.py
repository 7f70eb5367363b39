"""The settings of a site about deciding, read from the ``[policy]`` table of the site file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SliceAim(StrEnum):
    """The MIG slices of a GPU model, of those that will do, that the objective may choose from."""

    SMALLEST = "smallest"
    """The one that takes least of the GPU."""
    THROUGHPUT = "throughput"
    """Most predicted work for the part of the GPU that it takes."""
    OBJECTIVE = "objective"
    """All of them: the objective decides."""


class ListBy(StrEnum):
    """The rule that lists candidates beside the best, where the scheduler takes several."""

    SCORE = "score"
    """Those whose score is within ``alike_within`` of the best one's."""
    START = "start"
    """Those that can only help where the best one starts later than expected: the job would run
    there no longer than at the best, but for as much as it is expected to start later."""


class UntypedGpus(StrEnum):
    """The treatment of ``--gres=gpu:1``, which names no type, on nodes with slices."""

    TYPE = "type"
    """Berth names the type of the slice that it chooses."""
    LEAVE = "leave"
    """The user's words stay, and Berth sends no such job to slices."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Exponents of the balanced objective, and how much expected waiting counts."""

    time: float = 1.0
    cost: float = 1.0
    wait: float = 1.0
    """Seconds of predicted time that one second of expected waiting counts as; 0: ignored."""
    energy: float = 0.0


@dataclass(frozen=True, slots=True)
class Explore:
    """The budget for sending jobs where the most is learnt."""

    core_hours: float = 0.0
    """Core-hours in each period, by upper predicted times; 0: off."""
    period_s: float = 7 * 86_400.0
    share: float = 0.05
    """At most this part of a workload's jobs."""
    worst: float = 2.0
    """The upper predicted time there is at most so many times the best one's median."""
    next_jobs: int = 20
    """So many next jobs, at most, count in the value of what is learnt; fewer for a workload
    that had fewer in the period."""
    excluded_users: tuple[str, ...] = ()

    @property
    def on(self) -> bool:
        """Return whether any job is ever sent somewhere to learn."""
        return self.core_hours > 0


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The policy of a site. ``strict`` is how the submit filter decides.

    Not strict (a person looks at the answer before anything happens): a prediction that is only
    a prior or abstains, a wide interval or an unknown state are warnings instead of exclusions.
    """

    objective: str = "fastest"
    """A name of ``OBJECTIVES``."""
    weights: Weights = Weights()
    strict: bool = True
    allow_prior: bool = False
    may_raise_time_limit: bool = False
    time_margin: float = 1.0
    """The upper predicted time is multiplied by this before it is compared with a limit."""
    max_interval_ratio: float = 30.0
    """Largest upper / lower bound of the predicted time that is still acted on: a factor of five
    and a half either way. Limits are held by the upper bound, so width costs gain, not jobs."""
    stale_after_s: float = 120.0
    list_queues: bool = False
    """The scheduler takes several queues for a job, and starts it where it can first."""
    alike_within: float = 1.25
    """Candidates whose predicted finish is within this factor of the best, and cannot be told
    apart by their intervals, are listed together; 1: never."""
    list_by: ListBy = ListBy.SCORE
    slices: SliceAim = SliceAim.SMALLEST
    untyped_gpus: UntypedGpus = UntypedGpus.TYPE
    deadline_limits: float | None = None
    """Objective deadline: a job is to end within so many times its time limit from submission,
    where it has no deadline of its own; None: such a job has none."""
    explore: Explore = Explore()
    order: tuple[str, ...] = ()
    """Objective static-best: names of candidates, best first."""

    @property
    def lists(self) -> bool:
        """Return whether a job is ever given several queues."""
        wanted = self.list_by is ListBy.START or self.alike_within > 1
        return self.list_queues and wanted
