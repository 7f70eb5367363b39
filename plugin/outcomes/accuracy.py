"""Compares predicted with real run times of finished jobs, for ``berth jobs outcomes``.

A job is compared if it completed and had a prediction for the place, cores and GPUs with which it
ran. These jobs are a biased sample: a job ran where it did because a short time was predicted
there. A job killed by its time limit after the interval's upper end counts as outside the interval,
because a limit chosen at that end kills exactly the jobs that exceed the interval.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

from berth.plugin.store.records import PlacedRun, RunSums, is_timed

if TYPE_CHECKING:
    from berth.plugin.store.store import Store

NOMINAL = 0.90
"""Nominal coverage of the predicted intervals."""
FEWEST = 20
"""Least number of jobs from which coverage is judged."""
MOST = 20_000
"""Maximum number of jobs, the newest ones, that are summarised; a share among so many is known
to 0.4 %."""
MOST_COUNTED = 500_000
"""Counting stops at this number of jobs; messages then say "or more"."""
HALF_A_SECOND_S = 0.5
"""Allowance for times that the scheduler records in whole seconds."""

GROUPS = ("platform", "candidate", "workload", "bundle")
"""The attributes by which jobs can be grouped."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Predicted compared with real run times in one group of jobs. None: there are no jobs to
    compare."""

    name: str
    jobs: int
    """Number of jobs that ended, in whatever state."""
    compared: int
    """Number of jobs that completed and had a prediction."""
    timeouts: int
    """Number of jobs killed by their time limit, among those with a prediction."""
    median_error: float | None
    """Median of abs(real / predicted - 1), a fraction."""
    p90_error: float | None
    bias: float | None
    """Median of real / predicted time; over 1: jobs take longer than predicted."""
    overruns: int
    """Number of timeouts that had run longer than the interval's upper end."""
    coverage: float | None
    """Share of real times inside the 90 % interval, among the compared jobs and the overruns."""
    coverage_low: float | None
    """Lower end of the Wilson 95 % interval of ``coverage``."""
    coverage_high: float | None

    @property
    def verdict(self) -> str:
        """Return an administrator's conclusion on the intervals, in a few words."""
        if (
            self.compared + self.overruns < FEWEST
            or self.coverage_low is None
            or self.coverage_high is None
        ):
            return f"too few to tell ({FEWEST} needed)"
        if self.coverage_high < NOMINAL:
            return "intervals too narrow"
        if self.coverage_low > NOMINAL:
            return "holds, intervals wide"
        return "holds"


def summarise(outcomes: Iterable[PlacedRun | RunSums], by: str) -> list[Accuracy]:
    """Return one Accuracy for each value of the attribute ``by`` (one of ``GROUPS``), the
    largest group first; then one for all jobs, if there are several groups."""
    groups, every = dict[str, _Sums](), _Sums()
    group_of = attrgetter(by)
    for outcome in outcomes:
        name = group_of(outcome) or "(no prediction)"
        sums = groups.get(name) or groups.setdefault(name, _Sums())
        sums.add(outcome)
        every.add(outcome)
    rows = [_accuracy(name, sums) for name, sums in groups.items()]
    rows.sort(key=lambda row: (-row.compared, -row.jobs, row.name))
    if len(rows) > 1:
        rows.append(_accuracy("all", every))
    return rows


def newest_jobs(store: Store, since_s: float, until_s: float) -> tuple[list[RunSums], int]:
    """Return the newest ``MOST`` jobs that ended between two Unix times (s), and the number of
    all jobs that did, counted up to ``MOST_COUNTED``."""
    jobs = store.outcomes.newest(since_s, until_s, MOST)
    if len(jobs) < MOST:
        return jobs, len(jobs)
    return jobs, store.outcomes.count(since_s, until_s, MOST_COUNTED)


def newest_only(things: str, some: int, of: int, done: str = "looked at") -> list[str]:
    """Return a sentence saying that only the newest ``some`` of ``of`` ``things`` are used; an
    empty list where all are."""
    if of <= some:
        return []
    return [f"of {number(of)} {things} the newest {some:,} are {done}"]


def number(counted: int) -> str:
    """Return a count as text; ``500,000 or more`` from ``MOST_COUNTED``."""
    return f"{counted:,}" if counted < MOST_COUNTED else f"{MOST_COUNTED:,} or more"


def real_over_predicted(outcome: PlacedRun | RunSums) -> float | None:
    """Return real over predicted run time; None where the job did not complete, has no
    prediction, or ran too short to be timed."""
    if outcome.state != "completed" or not outcome.predicted_s or not is_timed(outcome.elapsed_s):
        return None
    return outcome.elapsed_s / outcome.predicted_s


def is_inside(outcome: PlacedRun | RunSums) -> bool:
    """Return whether the real run time is inside the predicted interval, as far as a time in whole
    seconds can tell."""
    low_s, high_s = outcome.predicted_low_s, outcome.predicted_high_s
    if low_s is None or high_s is None:
        return False
    clock_s = HALF_A_SECOND_S if float(outcome.elapsed_s).is_integer() else 0.0
    return low_s - clock_s <= outcome.elapsed_s <= high_s + clock_s


@dataclass(slots=True)
class _Sums:
    """Counts and time ratios of one group's jobs."""

    jobs: int = 0
    timeouts: int = 0
    overruns: int = 0
    inside: int = 0
    ratios: list[float] = field(default_factory=list)

    def add(self, outcome: PlacedRun | RunSums) -> None:
        self.jobs += 1
        time_ratio = real_over_predicted(outcome)
        if time_ratio is not None:
            self.ratios.append(time_ratio)
            self.inside += is_inside(outcome)
        elif outcome.state == "timeout":
            self.timeouts += outcome.predicted_s is not None
            self.overruns += _is_overrun(outcome)


def _accuracy(name: str, sums: _Sums) -> Accuracy:
    from berth.predictor.core.intervals import wilson  # noqa: PLC0415 - commands that judge nothing

    ratios, inside, overruns = sums.ratios, sums.inside, sums.overruns
    errors = sorted(abs(ratio - 1) for ratio in ratios)
    counted = len(ratios) + overruns
    low, high = wilson(inside, counted) if counted else (None, None)
    return Accuracy(
        name=name,
        jobs=sums.jobs,
        compared=len(ratios),
        timeouts=sums.timeouts,
        median_error=statistics.median(errors) if errors else None,
        p90_error=errors[math.ceil(0.9 * len(errors)) - 1] if errors else None,
        bias=statistics.median(ratios) if ratios else None,
        overruns=overruns,
        coverage=inside / counted if counted else None,
        coverage_low=low,
        coverage_high=high,
    )


def _is_overrun(timeout: PlacedRun | RunSums) -> bool:
    high_s = timeout.predicted_high_s
    return high_s is not None and timeout.elapsed_s > high_s
