"""Forecast of a live queue for the next hours: when waiting jobs start, with intervals.

The present queue is replayed forward some dozens of times. Each replay draws every job's run time
from the job's prediction, given how long the job has run already. Jobs that are submitted later are
not modelled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from berth.policies.replay.cluster import Cluster
from berth.policies.replay.compiled import has_numba
from berth.policies.replay.engine import WORTH_COMPILING, replay
from berth.policies.replay.inputs import Units
from berth.policies.replay.placement import Placer
from berth.policies.replay.replayed import Replayed
from berth.policies.replay.settings import Settings
from berth.policies.replay.trace import Floats, Ints, Trace
from berth.policies.waits import WaitTable
from berth.predictor.core.intervals import NORMAL_90
from berth.predictor.core.prediction import Interval

SAMPLES = 40
EARLIER = 5.0
"""Calibrated divisor of the lower end of the time until a job's start: the replays do not model
errors that jobs have in common, or jobs submitted later."""
FLOOR_S = 60.0
"""Seconds added to the time until a job's start, so that the factor also widens short times."""
LEAST_S = 1.0
"""Least remaining run time of a running job, in seconds."""
_Z = np.linspace(-4.0, 4.0, 321)
_SHARE = np.array([NormalDist().cdf(z) for z in _Z])


@dataclass(frozen=True)
class TotalTimes:
    """Predicted total run times of the jobs: [jobs] central value and 90 % interval, in seconds."""

    low_s: Floats
    mid_s: Floats
    high_s: Floats

    def at(self, share: Floats | float, elapsed_s: Floats, limit_s: Floats) -> Floats:
        """Return [jobs] the quantile ``share`` of total run time, given that the job has run
        ``elapsed_s``.

        ``limit_s`` NaN: the job has no limit. A job that has run beyond its whole predicted
        distribution is assumed to run to its limit or, without a limit, to twice its elapsed time.
        """
        mid = np.maximum(self.mid_s, LEAST_S)
        below = np.log(mid / np.maximum(self.low_s, 1e-3 * mid)) / NORMAL_90
        above = np.log(np.maximum(self.high_s, mid) / mid) / NORMAL_90
        ran = np.log(np.maximum(elapsed_s, 1e-6) / mid)
        z = ran / np.maximum(np.where(ran < 0, below, above), 1e-6)
        since = np.where(elapsed_s > 0, np.interp(z, _Z, _SHARE), 0.0)
        place = np.interp(since + (1.0 - since) * share, _SHARE, _Z)
        total_s = mid * np.exp(place * np.where(place < 0, below, above))
        outrun = (elapsed_s > 0) & (z >= _Z[-1])
        total_s = np.where(outrun, np.where(np.isnan(limit_s), 2.0 * elapsed_s, limit_s), total_s)
        total_s = np.maximum(total_s, elapsed_s + LEAST_S)
        return np.asarray(np.where(np.isnan(limit_s), total_s, np.minimum(total_s, limit_s)), float)


@dataclass(frozen=True)
class Queue:
    """The jobs of a queue at ``now_s`` (Unix time): running jobs, then waiting jobs in starting
    order."""

    trace: Trace
    """All jobs, as if submitted now, with the time limits that they requested."""
    now_s: float
    elapsed_s: Floats
    """[jobs] seconds for which each job has run; 0 for waiting jobs."""
    units: tuple[Ints, ...]
    """[running jobs] the nodes of each job, as rows of the cluster's nodes; unused in pools."""

    @property
    def running(self) -> int:
        """Return the number of running jobs."""
        return len(self.units)

    def ahead(self, total_s: Floats) -> Trace:
        """Return the trace from now on, where each job's total run time is ``total_s``."""
        return replace(
            self.trace,
            runtime_s=np.maximum(total_s - self.elapsed_s, LEAST_S),
            limit_s=np.maximum(self.trace.limit_s - self.elapsed_s, LEAST_S),
        )


@dataclass(frozen=True)
class Foreseen:
    """Predicted start of each waiting job, [waiting jobs] in Unix seconds; infinite: never.

    ``mid_s`` is the start when every job runs as long as its central prediction.
    """

    low_s: Floats
    mid_s: Floats
    high_s: Floats
    middle: Replayed
    replays: tuple[Replayed, ...]
    """The replays with random run times, one for each draw."""


Placing = Callable[[Trace], Placer]
"""Return the placement policy for the jobs of one draw's trace."""


def foresee(
    queue: Queue,
    cluster: Cluster,
    settings: Settings,
    times: TotalTimes,
    *,
    samples: int = SAMPLES,
    seed: int = 0,
    placing: Placing | None = None,
) -> Foreseen:
    """Return the predicted starts of the waiting jobs under these settings.

    ``placing``: the policy that places the jobs; None: they stay in their partitions.
    """
    rng = np.random.default_rng(seed)
    replays = []
    if settings.compiled is None and (samples + 1) * len(queue.trace) >= WORTH_COMPILING:
        settings = replace(settings, compiled=has_numba())
    for number in range(samples + 1):
        share = rng.uniform(size=len(queue.trace)) if number else 0.5
        trace = queue.ahead(times.at(share, queue.elapsed_s, queue.trace.limit_s))
        placement = None if placing is None else placing(trace)
        replays.append(replay(trace, cluster, settings, placement, held=queue.units))
    starts = np.array([replayed.start_s[queue.running :] for replayed in replays])
    starts = np.where(np.isnan(starts), np.inf, starts) - queue.now_s
    low, middle, high = interval(starts)
    return Foreseen(
        queue.now_s + low, queue.now_s + middle, queue.now_s + high, replays[0], tuple(replays[1:])
    )


def interval(waits: Floats) -> tuple[Floats, Floats, Floats]:
    """Return ``(low, middle, high)`` of the seconds until the start, from one row of waits per
    replay.

    The first row has the central run times, each further row those of one draw.
    """
    middle = waits[0]
    if len(waits) < 2 or not middle.size:
        return middle, middle, middle
    low, high = np.percentile(waits, (5, 95), axis=0, method="nearest")
    low = np.maximum((np.minimum(low, middle) + FLOOR_S) / EARLIER - FLOOR_S, 0.0)
    return np.minimum(low, middle), middle, np.maximum(high, middle)


LENGTHS_S = (600.0, 3_600.0, 14_400.0, 86_400.0, math.inf)
"""Upper bounds of the classes of run time, in seconds."""


def wait_table(
    foreseen: Foreseen, now_s: float, partition: int, *, gpus: bool, cores_per_gpu: int = 1
) -> WaitTable:
    """Return the expected wait of a job submitted now to a partition, by its size and run time.

    The size is in GPUs or cores. The job starts at the first moment from which its resources stay
    free for its whole run, so that no replayed job is delayed. The central value uses the central
    run times; the 90 % interval is taken over the draws.
    """
    units = Units(foreseen.middle.cluster)
    rows = units.of[partition]
    capacity = int(units.capacity[rows, int(gpus)].sum())
    sizes = sorted({*(2**i for i in range(capacity.bit_length())), max(capacity, 1)})
    room = units.capacity[rows].sum(axis=0)
    drawn = []
    for replayed in (foreseen.middle, *foreseen.replays):
        times, free = _free(replayed, now_s, rows, room)
        able = np.minimum(free[:, 1], free[:, 0] // max(cores_per_gpu, 1)) if gpus else free[:, 0]
        drawn.append([_starts(times, able >= min(size, int(able[-1]))) for size in sizes])
    low, mid, high = interval(np.array(drawn))
    waits = tuple(
        tuple(Interval(*each) for each in zip(*row, strict=True))
        for row in zip(low.tolist(), mid.tolist(), high.tolist(), strict=True)
    )
    return WaitTable(tuple(sizes), LENGTHS_S, waits)


def _free(replayed: Replayed, now_s: float, rows: Ints, room: Ints) -> tuple[Floats, Ints]:
    """Return ``(times, free)``: free cores and GPUs of these nodes from each time to the next.

    Times are seconds from now, the first is 0; the last row holds for all later times.
    """
    counts = np.array([len(units) for units in replayed.units], np.int64)
    on = np.repeat(np.arange(len(counts)), counts)
    is_there = np.isin(np.concatenate([np.zeros(0, np.int64), *replayed.units]), rows)
    nodes = np.bincount(on[is_there], minlength=len(counts))
    jobs = np.flatnonzero((nodes > 0) & replayed.ran)
    held = np.stack([replayed.cores[jobs], replayed.gpus[jobs]], axis=1)
    held = held // replayed.nodes[jobs, None] * nodes[jobs, None]
    start, end = replayed.start_s[jobs] - now_s, replayed.end_s[jobs] - now_s
    moments = np.concatenate([np.zeros(1), np.maximum(start, 0.0), end])
    change = np.concatenate([room[None, :2], -held, held])
    times, index = np.unique(moments, return_inverse=True)
    free = np.zeros((len(times), 2), np.int64)
    np.add.at(free, index, change)
    return times, np.cumsum(free, axis=0)


def _starts(times: Floats, room: np.ndarray) -> list[float]:
    """Return, for each of ``LENGTHS_S``, the first time from which there is room for that long."""
    lacks = np.where(room, np.inf, times)
    next_lack = np.minimum.accumulate(lacks[::-1])[::-1]
    starts = []
    for length in LENGTHS_S:
        able = room & ((next_lack - times >= length) | np.isinf(next_lack))
        starts.append(float(times[np.argmax(able)]) if able.any() else float(times[-1]))
    return starts
