"""Figures of a replay: waits, slowdown, use, energy, cost, carbon, kills, fairness.

Bounded slowdown (Feitelson 2001): ``max(1, (wait + run) / max(run, 10 s))``. Intervals of 90 %
are bootstrapped over weeks of submission, as jobs of one week are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from berth.policies.carbon import Intensity
from berth.policies.replay.cluster import NodeKind
from berth.policies.replay.columns import Floats, Ints
from berth.policies.replay.replayed import Counts, Replayed

SHORTEST_S = 10.0
"""Run times below count as this in bounded slowdown."""
DRAWS = 500
HOUR_S = 3_600.0
COVERED = (5.0, 95.0)


class Range(NamedTuple):
    """Of a figure, 90 %."""

    low: float
    high: float


@dataclass(frozen=True)
class Metrics:
    """Figures over the jobs that ended. NaN: there are none; None: the cluster does not say."""

    jobs: int
    makespan_s: float
    """From the first submission to the last end."""
    mean_wait_s: float
    p95_wait_s: float
    p99_wait_s: float
    mean_bounded_slowdown: float
    mean_finish_s: float
    """From submission to end."""
    utilisation: float
    """Core-seconds held over those that the cluster had within the makespan."""
    gpu_utilisation: float | None
    energy_kwh: float | None
    cost: float | None
    carbon_kg: float | None
    killed: int
    fairness: float
    """Jain's index of the users' mean bounded slowdown: 1 where all fare alike."""
    counts: Counts
    intervals: Mapping[str, Range] = field(default_factory=dict)
    """By name of the figure; empty where they were not asked for, or in one week only."""


class UserFigures(NamedTuple):
    """One user's jobs."""

    user: str
    jobs: int
    mean_wait_s: float
    mean_bounded_slowdown: float


class _Jobs(NamedTuple):
    """[jobs that ended]."""

    week: Ints
    wait_s: Floats
    slowdown: Floats
    finish_s: Floats
    kwh: Floats
    cost: Floats
    kg: Floats
    killed: Floats


def metrics(replayed: Replayed, *, intervals: bool = True, seed: int = 0) -> Metrics:
    """``intervals`` False: without the bootstrap, which takes the longest."""
    ran = np.flatnonzero(replayed.ran)
    start, end = replayed.start_s[ran], replayed.end_s[ran]
    run = end - start
    wait = replayed.wait_s[ran]
    kwh, cost, kg = _spent(replayed, ran)
    jobs = _Jobs(
        week=replayed.trace.weeks[ran],
        wait_s=wait,
        slowdown=bounded_slowdown(wait, run),
        finish_s=end - replayed.trace.submit_s[ran],
        kwh=kwh,
        cost=cost,
        kg=kg,
        killed=replayed.killed[ran].astype(float),
    )
    makespan = float(end.max() - replayed.trace.submit_s.min()) if len(ran) else np.nan
    units = [(kind.cores * kind.count, kind.gpus * kind.count) for kind in replayed.cluster.kinds]
    all_cores, all_gpus = (sum(one[i] for one in units) for i in (0, 1))
    ranges: dict[str, Range] = {}
    if intervals and len(np.unique(jobs.week)) > 1:
        ranges = _bootstrap(jobs, seed)
    return Metrics(
        jobs=len(ran),
        makespan_s=makespan,
        mean_wait_s=_mean(jobs.wait_s),
        p95_wait_s=_percentile(jobs.wait_s, 95),
        p99_wait_s=_percentile(jobs.wait_s, 99),
        mean_bounded_slowdown=_mean(jobs.slowdown),
        mean_finish_s=_mean(jobs.finish_s),
        utilisation=_share(float((replayed.cores[ran] * run).sum()), all_cores * makespan),
        gpu_utilisation=_share(float((replayed.gpus[ran] * run).sum()), all_gpus * makespan)
        if all_gpus
        else None,
        energy_kwh=_total(kwh),
        cost=_total(cost),
        carbon_kg=_total(kg),
        killed=replayed.counts.killed,
        fairness=_jain([one.mean_bounded_slowdown for one in by_user(replayed)]),
        counts=replayed.counts,
        intervals=ranges,
    )


def bounded_slowdown(wait_s: Floats, run_s: Floats) -> Floats:
    """[jobs]."""
    return np.maximum(1.0, (wait_s + run_s) / np.maximum(run_s, SHORTEST_S))


def by_user(replayed: Replayed) -> list[UserFigures]:
    """In order of the trace's users; those without a job that ended are left out."""
    ran = np.flatnonzero(replayed.ran)
    user = replayed.trace.user[ran]
    wait = replayed.wait_s[ran]
    slow = bounded_slowdown(wait, replayed.end_s[ran] - replayed.start_s[ran])
    size = int(user.max(initial=-1)) + 1
    jobs = np.bincount(user, minlength=size)
    waited, slowed = (np.bincount(user, weights=column, minlength=size) for column in (wait, slow))
    names = replayed.trace.users
    return [
        UserFigures(
            names[i] if i < len(names) else str(i),
            int(jobs[i]),
            float(waited[i] / jobs[i]),
            float(slowed[i] / jobs[i]),
        )
        for i in np.flatnonzero(jobs).tolist()
    ]


def over_seeds(found: Sequence[Metrics]) -> dict[str, Range]:
    """From the least to the largest of some replays that differ by their seed only."""
    return {name: Range(float(min(v)), float(max(v))) for name, v in _columns(found).items()}


def difference(
    a: Replayed, b: Replayed, *, seed: int = 0, draws: int = DRAWS
) -> tuple[float, Range]:
    """Mean wait of ``b`` less that of ``a`` over jobs that ended in both, with its interval.

    Replays of the same trace, job by job: what weeks have in common falls out.
    """
    both = np.flatnonzero(a.ran & b.ran)
    gain = b.wait_s[both] - a.wait_s[both]
    weeks = a.trace.weeks[both]
    sums, counts = (np.bincount(weeks, weights=w) for w in (gain, np.ones(len(both))))
    drawn = _draws(len(counts), seed, draws)
    means = sums[drawn].sum(axis=1) / np.maximum(counts[drawn].sum(axis=1), 1)
    return _mean(gain), _range(means)


def _columns(found: Sequence[Metrics]) -> dict[str, list[float]]:
    names = [n for n, v in vars(found[0]).items() if isinstance(v, int | float)] if found else []
    return {name: [float(getattr(one, name)) for one in found] for name in names}


def _spent(replayed: Replayed, ran: Ints) -> tuple[Floats, Floats, Floats]:
    """(energy in kWh, cost, carbon in kg) [jobs]; NaN where the cluster does not say."""
    cluster = replayed.cluster
    kinds = [cluster.kind(part.kinds[0]) for part in cluster.partitions]
    part = replayed.partition[ran]
    start, end = replayed.start_s[ran], replayed.end_s[ran]
    hours = (end - start) / HOUR_S
    cores, gpus = replayed.cores[ran].astype(float), replayed.gpus[ran].astype(float)
    nodes = replayed.nodes[ran].astype(float)

    def of(value: Callable[[NodeKind], float | None]) -> Floats:
        given = [value(kind) for kind in kinds]
        return np.array([np.nan if one is None else one for one in given])[part]

    def price(value: Callable[[NodeKind], float | None]) -> Floats:
        return np.nan_to_num(of(value))

    of_gpus, of_cores = of(lambda k: k.power_per_gpu_w), of(lambda k: k.power_per_core_w)
    kwh = np.where(gpus > 0, of_gpus * gpus, of_cores * cores) * hours / 1_000.0
    cost = hours * (
        price(lambda k: k.price_per_core_hour) * cores
        + price(lambda k: k.price_per_gpu_hour) * gpus
        + price(lambda k: k.price_per_node_hour) * nodes
    )
    cost[np.isnan(of(_any_price))] = np.nan
    return kwh, cost, kwh * _intensity(cluster.carbon, start, end) / 1_000.0


def _any_price(kind: NodeKind) -> float | None:
    prices = (kind.price_per_core_hour, kind.price_per_gpu_hour, kind.price_per_node_hour)
    return None if all(price is None for price in prices) else 0.0


def _intensity(carbon: Intensity | None, start: Floats, end: Floats) -> Floats:
    """[jobs] mean carbon intensity while each ran, g/kWh."""
    if carbon is None:
        return np.full(len(start), np.nan)
    if len(carbon.hourly) == 1:
        return np.full(len(start), carbon.hourly[0])
    return np.array([carbon.mean(a, b - a) for a, b in zip(start, end, strict=True)])


def _bootstrap(jobs: _Jobs, seed: int) -> dict[str, Range]:
    weeks = np.unique(jobs.week, return_inverse=True)[1]
    size = int(weeks.max()) + 1
    drawn = _draws(size, seed, DRAWS)
    counts = np.bincount(weeks, minlength=size)
    found = {}
    for name, column in (
        ("mean_wait_s", jobs.wait_s),
        ("mean_bounded_slowdown", jobs.slowdown),
        ("mean_finish_s", jobs.finish_s),
    ):
        sums = np.bincount(weeks, weights=column, minlength=size)
        found[name] = _range(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    for name, column in (
        ("energy_kwh", jobs.kwh), ("cost", jobs.cost), ("carbon_kg", jobs.kg),
        ("killed", jobs.killed),
    ):  # fmt: skip
        if not np.all(np.isnan(column)):
            sums = np.bincount(weeks, weights=np.nan_to_num(column), minlength=size)
            found[name] = _range(sums[drawn].sum(axis=1))
    for name, percent in (("p95_wait_s", 95), ("p99_wait_s", 99)):
        found[name] = _range(_weekly_percentiles(jobs.wait_s, weeks, drawn, percent))
    return found


def _weekly_percentiles(wait: Floats, weeks: Ints, drawn: Ints, percent: int) -> Floats:
    """[draws] the percentile of the jobs of the drawn weeks, each counted as often as drawn."""
    order = np.argsort(wait, kind="stable")
    wait, weeks = wait[order], weeks[order]
    found = np.empty(len(drawn))
    for place, sample in enumerate(drawn):
        times = np.bincount(sample, minlength=drawn.shape[1])
        total = np.cumsum(times[weeks])
        found[place] = wait[np.searchsorted(total, total[-1] * percent / 100.0)]
    return found


def _draws(weeks: int, seed: int, draws: int) -> Ints:
    return np.random.default_rng(seed).integers(0, max(weeks, 1), (draws, max(weeks, 1)))


def _range(values: Floats) -> Range:
    low, high = np.percentile(values, COVERED)
    return Range(float(low), float(high))


def _mean(column: Floats) -> float:
    return float(column.mean()) if len(column) else float("nan")


def _percentile(column: Floats, percent: float) -> float:
    return float(np.percentile(column, percent)) if len(column) else float("nan")


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else float("nan")


def _total(column: Floats) -> float | None:
    return None if np.all(np.isnan(column)) else float(np.nansum(column))


def _jain(values: Sequence[float]) -> float:
    column = np.array(values)
    squares = float((column**2).sum())
    return float(column.sum() ** 2 / (len(column) * squares)) if squares > 0 else float("nan")
