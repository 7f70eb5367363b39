"""Describes learning for people: the jobs that changed a forecast, and changes noticed at the
site."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from berth.plugin.learning.learner import notices
from berth.plugin.learning.scope import EVERYBODY, StoreReader, scope_of
from berth.plugin.store.records import PlacedRun
from berth.plugin.store.store import Store
from berth.plugin.workloads.names import owner_in
from berth.predictor.core.forecast import Forecast
from berth.predictor.learning.learnt import learnt_forecast, pulls
from berth.predictor.learning.site_history import SiteHistory

MOST_SHOWN = 5_000
"""Maximum number of jobs, the newest ones, in which changes are searched: more would take
seconds."""
_HELD = 0.05
"""Weight below which a run counts as an outlier that learning ignored."""


@dataclass(frozen=True, slots=True)
class Mover:
    """One finished job, and the factor by which it changed the predicted time on a platform."""

    job: str
    user: str
    platform: str
    """The platform where the job ran."""
    runtime_s: float
    moved: float
    """Factor on the predicted time; 1: no change."""
    outlier: bool


@dataclass(frozen=True, slots=True)
class Moved:
    """A predicted time (s) with learning beside the time without learning."""

    user: str
    """The user whose jobs the forecast is for; empty: all users."""
    platform: str
    before_s: float
    after_s: float
    low_s: float
    high_s: float
    movers: tuple[Mover, ...]
    """The jobs that changed the time, the largest change first."""


def moved(store: Store, workload: str, *, everybody: bool = False) -> list[Moved]:
    """Return the predicted times of a workload with and without learning, on the platforms where
    its jobs ran, for each user with a learnt forecast."""
    stored = StoreReader(store)
    moved_times = []
    for record in store.learning.forecasts(workload):
        reader = record.user or owner_in(workload) or EVERYBODY
        scope = scope_of(stored, EVERYBODY if everybody else reader, everybody=everybody)
        if stored.forecast(workload) is None:
            continue
        base = scope.forecast(workload)
        runs, level = scope.history.runs(workload), scope.history.standing(workload)
        by_job = {f"{r.cluster}/{r.job_id}": r for r in scope.records if r.workload == workload}
        after = learnt_forecast(base, runs, level)
        for platform in scope.history.platforms:
            if platform not in base.curves:
                continue
            point = _point(base, by_job.values(), platform)
            before, learnt = (f.curves[platform].points[point].runtime_s for f in (base, after))
            each = pulls(base, runs, level, platform, point)
            movers = [_mover(by_job[p.job], p.log_move, p.weight) for p in each]
            movers.sort(key=lambda m: -abs(math.log(m.moved)))
            moved_times.append(
                Moved(
                    record.user,
                    platform,
                    before.mid,
                    learnt.mid,
                    learnt.low,
                    learnt.high,
                    tuple(movers),
                )
            )
    return moved_times


@dataclass(frozen=True, slots=True)
class NoticedChanges:
    """Changes of run times noticed at the site, as sentences."""

    sentences: list[str]
    bound: list[str]
    """A sentence saying that only the newest jobs were searched; empty where all were."""


class NewestJobs:
    """Learns from the newest ``MOST_SHOWN`` usable jobs of all users, for administrators;
    computed once, at the first use."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.stored = StoreReader(store, most=MOST_SHOWN)

    @cached_property
    def history(self) -> SiteHistory:
        """Return what was learnt from the newest jobs. Raises StoreError."""
        return scope_of(self.stored, EVERYBODY, everybody=True).history

    def changes_since(self, since_s: float) -> NoticedChanges:
        """Return the changes noticed after a Unix time (s). Raises StoreError."""
        sentences, last = notices(self.history, since_s), self.stored.last
        is_bound = len(last) == MOST_SHOWN and (last[0].end_s or 0.0) > since_s
        bound = [f"changes are looked for in the newest {MOST_SHOWN:,} jobs"] if is_bound else []
        return NoticedChanges(sentences, bound)


def changes_since(store: Store, since_s: float) -> NoticedChanges:
    """Return the changes that the newest ``MOST_SHOWN`` jobs show and that were noticed after a
    Unix time (s)."""
    return NewestJobs(store).changes_since(since_s)


def _point(base: Forecast, records: Iterable[PlacedRun], platform: str) -> int:
    """Return the index of the point on the platform's curve at which the last job there ran; the
    last point where none did."""
    points = base.curves[platform].points
    ran = [
        (r.ranked_gpus or r.ranked_cores or 1) // (r.nodes or base.main_nodes)
        for r in records
        if r.platform == platform
    ]
    if not ran:
        return len(points) - 1
    return min(range(len(points)), key=lambda n: abs((points[n].gpus or points[n].cores) - ran[-1]))


def _mover(record: PlacedRun, log_move: float, weight: float) -> Mover:
    return Mover(
        record.job_id,
        record.user,
        record.platform or "",
        record.elapsed_s,
        math.exp(log_move),
        weight < _HELD,
    )
