"""Tracks the budget for exploratory placements (``policy.explore``): jobs sent to a place in order
to learn how fast they run there.

The amount spent is read from the store's decisions, hour by hour, and includes this daemon's
decisions since the last reading. Where the store cannot be read, no job is placed in order to
learn.
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
"""A reading of the store older than this (s) is not used."""
HOUR_S = 3_600.0
_OPTED_OUT = re.compile(r"(?:^|[\s,;])berth-explore:off(?:$|[\s,;])")
_STILL_COMING = 2
"""Number of newest hours that are always read again, as their decisions may not all be stored
yet."""


@dataclass(frozen=True, slots=True)
class Spent:
    """One exploratory placement: its time (Unix, s), workload and core hours."""

    time_s: float
    workload: str
    core_hours: float


@dataclass(frozen=True, slots=True)
class Hour:
    """The decisions of one hour that changed a job, and what exploring cost."""

    jobs: Mapping[str, int]
    """Number of jobs by workload."""
    spent: Mapping[str, Spent]
    """Exploratory placements by decision id."""


@dataclass(frozen=True, slots=True)
class SpendingBook:
    """The budget period's hours as they were last read from the store."""

    hours: Mapping[int, Hour] = field(default_factory=dict)
    read_s: float = -math.inf
    """When the store was read (monotonic clock, s)."""
    jobs: Mapping[str, int] = field(default_factory=dict)
    spent: Mapping[str, Spent] = field(default_factory=dict)


class Ledger:
    """Budget of exploratory placements. ``read`` is called by a background thread, all other
    methods by the thread that answers requests."""

    def __init__(
        self,
        explore: Explore,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.explore = explore
        self._monotonic = monotonic
        self._book = SpendingBook()
        self._own: dict[str, Spent] = {}
        """Exploratory placements decided by this daemon and not yet read from the store, by
        decision id."""

    def read(self, decisions: Decisions) -> None:
        """Read from the store the hours that are not cached, and the newest ones again. Raises
        StoreError."""
        read_s, now_s = self._monotonic(), time.time()
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
        spent = {name: job for hour in hours.values() for name, job in hour.spent.items()}
        self._book = SpendingBook(hours, read_s, dict(jobs), spent)

    def allowance(self, workload: str) -> Allowance | None:
        """Return the budget left for one more job of a workload; None: no exploratory placement
        is allowed."""
        book = self._book
        if self._is_old(book):
            return None
        spent = self._spent(book)
        allowance = Allowance(
            self.explore.core_hours - sum(job.core_hours for job in spent),
            book.jobs.get(workload, 0),
            sum(job.workload == workload for job in spent),
        )
        return allowance if allowance.open(self.explore) else None

    def take(self, decision: str, workload: str, core_hours: float) -> None:
        """Record that a job's placement was exploratory, with its cost in core hours."""
        self._own[decision] = Spent(time.time(), workload, core_hours)

    def summary(self) -> dict[str, object]:
        """Return the budget's figures for the daemon's ``stats``."""
        spent = self._spent(self._book)
        return {
            "known": not self._is_old(self._book),
            "jobs": len(spent),
            "core_hours": round(sum(job.core_hours for job in spent), 3),
            "budget": self.explore.core_hours,
            "days": self.explore.period_s / 86_400.0,
        }

    def _is_old(self, book: SpendingBook) -> bool:
        return self._monotonic() - book.read_s > STALE_S

    def _spent(self, book: SpendingBook) -> list[Spent]:
        since_s = time.time() - self.explore.period_s
        self._own = {
            name: job
            for name, job in self._own.items()
            if name not in book.spent and job.time_s >= since_s
        }
        stored = [job for job in book.spent.values() if job.time_s >= since_s]
        return [*stored, *self._own.values()]


def allowance_for(
    ledger: Ledger, kind: str | None, comment: str | None, request: Request,
    forecast: Forecast | None,
) -> Allowance | None:  # fmt: skip
    """Return the budget for an exploratory placement of this job; None: none is allowed.

    ``kind``: the type of the job (interactive jobs are never explored with, as a user is waiting);
    ``comment``: the user's comment on the job, which can opt out.
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
    spent = {d.id: Spent(d.time_s, d.workload or "", _core_hours(d.ranked)) for d in explored}
    return Hour(jobs, spent)


def _core_hours(ranked: str) -> float:
    """Return the core hours of an exploratory decision; infinity where its record is damaged, so
    that the budget counts as spent."""
    try:
        core_hours = float(json.loads(ranked)[0]["explored"]["core_hours"])
    except (ValueError, LookupError, TypeError):
        return math.inf
    return core_hours if core_hours >= 0 else math.inf
