"""What jobs that were sent somewhere to learn have taken of the budget (``policy.explore``).

The store's decisions say it, hour by hour; what this daemon decided since they were read counts,
too. Where they cannot be read no job is sent anywhere to learn.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from berth.plugin.store.decisions import Decisions
from berth.policies.exploring import Allowance
from berth.policies.settings import Explore
from berth.policies.values import Request
from berth.predictor.core.forecast import Forecast

READ_EVERY_S = 60.0
STALE_S = 600.0
"""Seconds after which a reading of the store is not relied on."""
HOUR_S = 3_600.0
_OPTED_OUT = re.compile(r"(?:^|[\s,;])berth-explore:off(?:$|[\s,;])")
_STILL_COMING = 2
"""Hours whose decisions may not all be stored yet: read anew each time."""


@dataclass(frozen=True, slots=True)
class Spent:
    """One job that was sent somewhere to learn."""

    time_s: float
    workload: str
    core_hours: float


@dataclass(frozen=True, slots=True)
class Hour:
    """The decisions of one hour, in mode enforce."""

    jobs: Mapping[str, int]
    """How many jobs each workload had."""
    spent: Mapping[str, Spent]
    """What was spent, by decision."""


@dataclass(frozen=True, slots=True)
class SpendingBook:
    """All hours of the period as they were read."""

    hours: Mapping[int, Hour] = field(default_factory=dict)
    read_s: float = -math.inf
    """Monotonic seconds."""
    jobs: Mapping[str, int] = field(default_factory=dict)
    spent: Mapping[str, Spent] = field(default_factory=dict)


class Ledger:
    """``read`` is for a background thread; the rest is the answering thread's own."""

    def __init__(
        self,
        explore: Explore,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.explore = explore
        self._clock = clock
        self._monotonic = monotonic
        self._book = SpendingBook()
        self._own: dict[str, Spent] = {}
        """Decided here and not yet found in the store."""

    def read(self, decisions: Decisions) -> None:
        """Read what the store does not hold as it was read before. Raises StoreError."""
        read_s, now_s = self._monotonic(), self._clock()
        last = math.floor(now_s / HOUR_S)
        first = math.floor((now_s - self.explore.period_s) / HOUR_S)
        hours = {}
        for number in range(first, last + 1):
            known = self._book.hours.get(number)
            if known is None or number > last - _STILL_COMING:
                known = _hour(decisions, number)
            hours[number] = known
        jobs: Counter[str] = Counter()
        for hour in hours.values():
            jobs.update(hour.jobs)
        spent = {
            name: spent_on_job
            for hour in hours.values()
            for name, spent_on_job in hour.spent.items()
        }
        self._book = SpendingBook(hours, read_s, dict(jobs), spent)

    def allowance(self, workload: str) -> Allowance | None:
        """Return what may be spent on one more job of a workload; None: nothing."""
        book = self._book
        if self._is_old(book):
            return None
        spent = self._spent(book)
        allowance = Allowance(
            self.explore.core_hours - sum(spent_on_job.core_hours for spent_on_job in spent),
            book.jobs.get(workload, 0),
            sum(spent_on_job.workload == workload for spent_on_job in spent),
        )
        return allowance if allowance.open(self.explore) else None

    def take(self, decision: str, workload: str, core_hours: float) -> None:
        """Note that a job was sent somewhere to learn."""
        self._own[decision] = Spent(self._clock(), workload, core_hours)

    def summary(self) -> dict[str, object]:
        """Return the figures for ``stats``."""
        spent = self._spent(self._book)
        return {
            "known": not self._is_old(self._book),
            "jobs": len(spent),
            "core_hours": round(sum(spent_on_job.core_hours for spent_on_job in spent), 3),
            "budget": self.explore.core_hours,
            "days": self.explore.period_s / 86_400.0,
        }

    def _is_old(self, book: SpendingBook) -> bool:
        return self._monotonic() - book.read_s > STALE_S

    def _spent(self, book: SpendingBook) -> list[Spent]:
        since_s = self._clock() - self.explore.period_s
        for name in [
            n
            for n, spent_on_job in self._own.items()
            if n in book.spent or spent_on_job.time_s < since_s
        ]:
            del self._own[name]
        return [
            *(
                spent_on_job
                for spent_on_job in book.spent.values()
                if spent_on_job.time_s >= since_s
            ),
            *self._own.values(),
        ]


def allowance_for(
    ledger: Ledger, kind: str | None, comment: str | None, request: Request,
    forecast: Forecast | None,
) -> Allowance | None:  # fmt: skip
    """Return what may be spent on sending a job where most is learnt; None: nothing.

    ``kind``: of the job (nobody who waits at a terminal is kept waiting); ``comment``: its user's.
    """
    if forecast is None or not forecast.whole_job or request.workload is None:
        return None
    if kind == "interactive" or "shape" in request.pinned:
        return None
    if request.needs.finish_within_s is not None or request.user in ledger.explore.excluded_users:
        return None
    if comment and _OPTED_OUT.search(comment):
        return None
    return ledger.allowance(request.workload)


def _hour(decisions: Decisions, number: int) -> Hour:
    begin_s, end_s = number * HOUR_S, (number + 1) * HOUR_S
    jobs, explored = decisions.enforced(begin_s, end_s)
    return Hour(
        jobs,
        {
            decision.id: Spent(
                decision.time_s, decision.workload or "", _core_hours(decision.ranked)
            )
            for decision in explored
        },
    )


def _core_hours(ranked: str) -> float:
    """Return the core hours of a decision; infinity where its record is damaged, so that nothing
    more is spent."""
    try:
        core_hours = float(json.loads(ranked)[0]["explored"]["core_hours"])
    except (ValueError, LookupError, TypeError):
        return math.inf
    return core_hours if core_hours >= 0 else math.inf
