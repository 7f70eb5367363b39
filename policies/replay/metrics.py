"""Figures of a replay: waits, slowdown, utilisation, energy, cost, carbon, kills, fairness.

Bounded slowdown (Feitelson 2001): ``max(1, (wait + run) / max(run, 10 s))``. The 90 % intervals are
bootstrapped over weeks of submission, because jobs of one week are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

import numpy as np

from berth.policies.replay.cluster import NodeKind
from berth.policies.replay.replayed import ReplayCounts, Replayed
from berth.policies.replay.trace import Floats, Ints
from berth.policies.replay.users import Range, Weeks, bounded_slowdown, ratio, span

HOUR_S = 3_600.0


@dataclass(frozen=True)
class Metrics:
    """Waits, slowdowns, energy and cost over the jobs that ended in a replay.

    NaN: no job ended. None: the cluster lacks the needed powers, prices, intensities or GPUs.
    """

    jobs: int
    makespan_s: float
    """Time from the first submission to the last end."""
    mean_wait_s: float
    p95_wait_s: float
    p99_wait_s: float
    mean_bounded_slowdown: float
    mean_finish_s: float
    """Mean time from submission to end."""
    utilisation: float
    """Core-seconds allocated to jobs / core-seconds that the cluster has in the makespan."""
    gpu_utilisation: float | None
    energy_kwh: float | None
    cost: float | None
    carbon_kg: float | None
    killed: int
    """Jobs killed by their time limit."""
    killed_memory: int
    fairness: float
    """Jain's index of the users' mean bounded slowdowns: 1 if all users have the same mean."""
    counts: ReplayCounts
    intervals: Mapping[str, Range] = field(default_factory=dict)
    """90 % intervals by name of the figure; empty if not requested or if there is only one week."""
    draws: Mapping[str, Floats] = field(default_factory=dict, repr=False, compare=False)
    """Bootstrap draws by name of the figure, from which the interval was computed."""


class _Jobs(NamedTuple):
    """Columns of the jobs that ended."""

    week: Ints
    wait_s: Floats
    slowdown: Floats
    finish_s: Floats
    kwh: Floats
    cost: Floats
    kg: Floats
    killed: Floats
    starved: Floats
    user: Ints


def metrics(replayed: Replayed, *, intervals: bool = True, seed: int = 0) -> Metrics:
    """Return the figures of a replay; ``intervals=False`` skips the bootstrap, the slowest part."""
    ran = np.flatnonzero(replayed.ran)
    start, end = replayed.start_s[ran], replayed.end_s[ran]
    run = end - start
    wait = replayed.wait_s[ran]
    kwh, cost = spent(replayed, ran)
    grams = replayed.cluster.carbon_g_per_kwh
    kg = kwh * (np.nan if grams is None else grams / 1_000.0)
    jobs = _Jobs(
        week=replayed.trace.weeks[ran],
        wait_s=wait,
        slowdown=bounded_slowdown(wait, run),
        finish_s=end - replayed.trace.submit_s[ran],
        kwh=kwh,
        cost=cost,
        kg=kg,
        killed=replayed.killed[ran].astype(float),
        starved=replayed.killed_memory[ran].astype(float),
        user=replayed.trace.user[ran],
    )
    makespan = float(end.max() - replayed.trace.submit_s.min()) if len(ran) else np.nan
    cluster = replayed.cluster
    all_cores = sum(kind.cores * kind.count for kind in cluster.kinds)
    all_gpus = cluster.whole_gpus
    parts = np.array([kind.gpu_part for kind in cluster.kinds])
    gpus = replayed.gpus[ran] * parts[_kinds(replayed, ran)]
    draws: dict[str, Floats] = {}
    if intervals and len(np.unique(jobs.week)) > 1:
        draws = _bootstrap(jobs, seed)
    return Metrics(
        jobs=len(ran),
        makespan_s=makespan,
        mean_wait_s=_mean(jobs.wait_s),
        p95_wait_s=_percentile(jobs.wait_s, 95),
        p99_wait_s=_percentile(jobs.wait_s, 99),
        mean_bounded_slowdown=_mean(jobs.slowdown),
        mean_finish_s=_mean(jobs.finish_s),
        utilisation=_share(float((replayed.cores[ran] * run).sum()), all_cores * makespan),
        gpu_utilisation=_share(float((gpus * run).sum()), all_gpus * makespan)
        if all_gpus
        else None,
        energy_kwh=_total(kwh),
        cost=_total(cost),
        carbon_kg=_total(kg),
        killed=replayed.counts.killed,
        killed_memory=replayed.counts.killed_memory,
        fairness=float(_jain(_mean_by(jobs.user, jobs.slowdown))),
        counts=replayed.counts,
        intervals={name: span(column) for name, column in draws.items()},
        draws=draws,
    )


def over_seeds(drawn: Sequence[Metrics]) -> Metrics:
    """Return the figures of replays that differ only in their seed: their means, with 90 %
    intervals.

    An interval is taken over the bootstrap draws of all seeds together, or over the seeds' own
    values for a figure without draws. Raises ValueError where there is no replay.
    """
    if not drawn:
        raise ValueError("no replay")
    if len(drawn) == 1:
        return drawn[0]
    means: dict[str, float] = {}
    ranges: dict[str, Range] = {}
    for figure in fields(Metrics):
        values = [getattr(metrics_, figure.name) for metrics_ in drawn]
        if all(isinstance(value, int | float) for value in values):
            mean = sum(values) / len(values)
            means[figure.name] = mean if isinstance(values[0], float) else round(mean)
            draws = [
                metrics_.draws.get(figure.name, np.array([v]))
                for metrics_, v in zip(drawn, values, strict=True)
            ]
            ranges[figure.name] = span(np.concatenate(draws))
    counts = {}
    for figure in fields(ReplayCounts):
        values = [getattr(metrics_.counts, figure.name) for metrics_ in drawn]
        counts[figure.name] = (
            values[0] if figure.name == "refused" else round(sum(values) / len(values))
        )
    merged = ReplayCounts(**counts)
    merged = replace(merged, ended=merged.replayed - merged.never)  # adds up
    return replace(drawn[0], **means, intervals=ranges, counts=merged)  # type: ignore[arg-type]


def spent(replayed: Replayed, ran: Ints) -> tuple[Floats, Floats]:
    """Return (energy in kWh, cost) of each of the jobs ``ran``; NaN where the cluster lacks the
    data."""
    cluster, kind_of = replayed.cluster, _kinds(replayed, ran)
    hours = (replayed.end_s[ran] - replayed.start_s[ran]) / HOUR_S
    cores, gpus = replayed.cores[ran].astype(float), replayed.gpus[ran].astype(float)

    def of(value: Callable[[NodeKind], float | None]) -> Floats:
        values = [value(kind) for kind in cluster.kinds]
        return np.array([np.nan if number is None else number for number in values])[kind_of]

    def price(value: Callable[[NodeKind], float | None]) -> Floats:
        return np.nan_to_num(of(value))

    of_gpus, of_cores = of(lambda k: k.power_per_gpu_w), of(lambda k: k.power_per_core_w)
    kwh = np.where(gpus > 0, of_gpus * gpus, of_cores * cores) * hours / 1_000.0
    cost = hours * (
        price(lambda k: k.price_per_core_hour) * cores
        + price(lambda k: k.price_per_gpu_hour) * gpus
    )
    cost[np.isnan(of(_any_price))] = np.nan
    return kwh, cost


def _kinds(replayed: Replayed, ran: Ints) -> Ints:
    """Return [jobs] the index, among the cluster's kinds, of the first node that each job ran
    on."""
    cluster = replayed.cluster
    names = [kind.name for kind in cluster.kinds]
    if not replayed.units:
        of = np.array([names.index(part.kinds[0]) for part in cluster.partitions], np.int64)
        return of[replayed.partition[ran]]
    of_node = np.repeat(np.arange(len(names)), [kind.count for kind in cluster.kinds])
    return of_node[np.array([replayed.units[i][0] for i in ran.tolist()], np.int64)]


def _any_price(kind: NodeKind) -> float | None:
    prices = (kind.price_per_core_hour, kind.price_per_gpu_hour)
    return None if all(price is None for price in prices) else 0.0


def _bootstrap(jobs: _Jobs, seed: int) -> dict[str, Floats]:
    weeks = Weeks(jobs.week, seed)
    draws = {
        name: weeks.means(column)
        for name, column in (
            ("mean_wait_s", jobs.wait_s),
            ("mean_bounded_slowdown", jobs.slowdown),
            ("mean_finish_s", jobs.finish_s),
        )
    }
    for name, column in (
        ("energy_kwh", jobs.kwh), ("cost", jobs.cost), ("carbon_kg", jobs.kg),
        ("killed", jobs.killed), ("killed_memory", jobs.starved),
    ):  # fmt: skip
        if not np.all(np.isnan(column)):
            draws[name] = weeks.sums(np.nan_to_num(column))
    for name, percent in (("p95_wait_s", 95), ("p99_wait_s", 99)):
        draws[name] = weeks.percentiles(jobs.wait_s, percent)
    users = int(jobs.user.max(initial=-1)) + 1
    counts = weeks.by(jobs.user, users, np.ones(len(jobs.user)))
    draws["fairness"] = _jain(ratio(weeks.by(jobs.user, users, jobs.slowdown), counts))
    return draws


def _mean(column: Floats) -> float:
    return float(column.mean()) if len(column) else float("nan")


def _mean_by(group: Ints, column: Floats) -> Floats:
    """Return [groups] the mean of a column over each group's jobs; NaN for a group without jobs."""
    counts = np.asarray(np.bincount(group), float)
    return ratio(np.asarray(np.bincount(group, column), float), counts)


def _percentile(column: Floats, percent: float) -> float:
    return float(np.percentile(column, percent)) if len(column) else float("nan")


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else float("nan")


def _total(column: Floats) -> float | None:
    return None if np.all(np.isnan(column)) else float(np.nansum(column))


def _jain(means: Floats) -> Floats:
    """Return Jain's index over the last axis, the users; NaN entries (users without jobs) are left
    out."""
    squares = np.nansum(means**2, axis=-1)
    users = np.sum(~np.isnan(means), axis=-1)
    return ratio(np.nansum(means, axis=-1) ** 2, users * squares)
