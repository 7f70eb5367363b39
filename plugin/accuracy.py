"""How good predictions were for jobs that have run: what ``berth outcomes`` shows.

Only jobs that completed and had a prediction for the place and shape in which they ran count. They
are no fair sample of all: a job is where it is because its time there was predicted to be short.
What its time limit killed beyond the interval counts as outside of it: a limit that was chosen to
hold the interval cuts off just the jobs that did not.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from berth.plugin.store.records import OutcomeRecord

NOMINAL = 0.90
"""What the intervals promise."""
FEWEST = 20
"""Below so many jobs nothing is said about coverage."""
_Z = 1.96

GROUPS: dict[str, Callable[[OutcomeRecord], str | None]] = {
    "platform": lambda o: o.platform,
    "candidate": lambda o: o.candidate,
    "profile": lambda o: o.profile,
    "bundle": lambda o: o.bundle,
}


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Predicted against real times of one group. None: nothing to compare."""

    name: str
    jobs: int
    """That ended, however they ended."""
    compared: int
    """That completed and had a prediction."""
    timeouts: int
    """Killed by their time limit, among those with a prediction."""
    median_error: float | None
    """Of abs(real / predicted - 1)."""
    p90_error: float | None
    bias: float | None
    """Median of real / predicted: over 1, jobs take longer than predicted."""
    overruns: int
    """Of the timeouts, those that had run longer than the interval said."""
    coverage: float | None
    """Share of real times inside the 90 % interval, of those compared and the overruns."""
    coverage_low: float | None
    """Wilson's 95 % interval of that share."""
    coverage_high: float | None

    @property
    def verdict(self) -> str:
        """What an administrator may conclude, in a few words."""
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


def summarise(outcomes: Iterable[OutcomeRecord], by: str) -> list[Accuracy]:
    """One Accuracy for each group (``GROUPS``), the largest first; then all, if several."""
    groups: dict[str, list[OutcomeRecord]] = {}
    for outcome in outcomes:
        groups.setdefault(GROUPS[by](outcome) or "(no prediction)", []).append(outcome)
    rows = [_accuracy(name, members) for name, members in groups.items()]
    rows.sort(key=lambda row: (-row.compared, -row.jobs, row.name))
    if len(rows) > 1:
        rows.append(_accuracy("all", [o for members in groups.values() for o in members]))
    return rows


def ratio(outcome: OutcomeRecord) -> float | None:
    """Real over predicted time; None where they cannot be compared."""
    if outcome.state != "completed" or not outcome.predicted_s or not outcome.elapsed_s:
        return None
    return outcome.elapsed_s / outcome.predicted_s


def is_inside(outcome: OutcomeRecord) -> bool:
    """Whether the real time is in the predicted interval."""
    low_s, high_s = outcome.predicted_low_s, outcome.predicted_high_s
    if outcome.elapsed_s is None or low_s is None or high_s is None:
        return False
    return low_s <= outcome.elapsed_s <= high_s


def _accuracy(name: str, outcomes: Sequence[OutcomeRecord]) -> Accuracy:
    compared = [(found, o) for o in outcomes if (found := ratio(o)) is not None]
    ratios = [found for found, _ in compared]
    errors = sorted(abs(found - 1) for found in ratios)
    inside = sum(is_inside(o) for _, o in compared)
    overruns = sum(map(_is_overrun, outcomes))
    counted = len(compared) + overruns
    low, high = _wilson(inside, counted) if counted else (None, None)
    return Accuracy(
        name=name,
        jobs=len(outcomes),
        compared=len(compared),
        timeouts=sum(o.state == "timeout" and o.predicted_s is not None for o in outcomes),
        median_error=statistics.median(errors) if errors else None,
        p90_error=errors[math.ceil(0.9 * len(errors)) - 1] if errors else None,
        bias=statistics.median(ratios) if ratios else None,
        overruns=overruns,
        coverage=inside / counted if counted else None,
        coverage_low=low,
        coverage_high=high,
    )


def _is_overrun(outcome: OutcomeRecord) -> bool:
    high_s, elapsed_s = outcome.predicted_high_s, outcome.elapsed_s
    if outcome.state != "timeout" or high_s is None or elapsed_s is None:
        return False
    return elapsed_s > high_s


def _wilson(hits: int, count: int) -> tuple[float, float]:
    """Wilson's score interval (1927) of a share, at 95 %."""
    share, z2 = hits / count, _Z * _Z
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2)) / (1 + z2 / count)
    return max(0.0, middle - half), min(1.0, middle + half)
