"""How long a job that comes now would wait, by its size and length, from replays of the queue."""

from __future__ import annotations

import math

import numpy as np

from berth.policies.replay.columns import Floats, Ints
from berth.policies.replay.live import Foreseen, interval
from berth.policies.replay.options import Units
from berth.policies.replay.replayed import Replayed
from berth.policies.waits import WaitTable
from berth.predictor.core.prediction import Interval

LENGTHS_S = (600.0, 3_600.0, 14_400.0, 86_400.0, math.inf)
"""Upper bounds of the classes of run time."""


def wait_table(
    found: Foreseen, now_s: float, partition: int, *, gpus: bool, cores_per_gpu: int = 1
) -> WaitTable:
    """Of the nodes of a partition, by GPUs or by cores.

    A job waits until nothing that was replayed keeps it from running to its end: it comes last,
    starts in a gap where it fits, and delays nobody. The middle is of the times as expected, the
    90 % interval is over the draws.
    """
    units = Units(found.middle.cluster)
    rows = units.of[partition]
    capacity = int(units.capacity[rows, int(gpus)].sum())
    sizes = sorted({*(2**i for i in range(capacity.bit_length())), max(capacity, 1)})
    room = units.capacity[rows].sum(axis=0)
    drawn = []
    for one in (found.middle, *found.replays):
        times, free = _free(one, now_s, rows, room)
        able = np.minimum(free[:, 1], free[:, 0] // max(cores_per_gpu, 1)) if gpus else free[:, 0]
        drawn.append([_starts(times, able >= min(size, int(able[-1]))) for size in sizes])
    low, mid, high = interval(np.array(drawn))
    waits = tuple(
        tuple(Interval(*each) for each in zip(*row, strict=True))
        for row in zip(low.tolist(), mid.tolist(), high.tolist(), strict=True)
    )
    return WaitTable(tuple(sizes), LENGTHS_S, waits)


def _free(done: Replayed, now_s: float, rows: Ints, room: Ints) -> tuple[Floats, Ints]:
    """``(times, free)``: cores and GPUs of these nodes that are free from each moment until the
    next, the last for good; now is 0."""
    counts = np.array([len(one) for one in done.units], np.int64)
    on = np.repeat(np.arange(len(counts)), counts)
    here = np.isin(np.concatenate([np.zeros(0, np.int64), *done.units]), rows)
    nodes = np.bincount(on[here], minlength=len(counts))
    jobs = np.flatnonzero((nodes > 0) & done.ran)
    held = np.stack([done.cores[jobs], done.gpus[jobs]], axis=1)
    held = held // done.nodes[jobs, None] * nodes[jobs, None]
    start, end = done.start_s[jobs] - now_s, done.end_s[jobs] - now_s
    moments = np.concatenate([np.zeros(1), np.maximum(start, 0.0), end])
    change = np.concatenate([room[None, :2], -held, held])
    times, place = np.unique(moments, return_inverse=True)
    free = np.zeros((len(times), 2), np.int64)
    np.add.at(free, place, change)
    return times, np.cumsum(free, axis=0)


def _starts(times: Floats, room: np.ndarray) -> list[float]:
    """[lengths] the first moment from which there is room for so long."""
    lacks = np.where(room, np.inf, times)
    next_lack = np.minimum.accumulate(lacks[::-1])[::-1]
    found = []
    for length in LENGTHS_S:
        able = room & ((next_lack - times >= length) | np.isinf(next_lack))
        found.append(float(times[np.argmax(able)]) if able.any() else float(times[-1]))
    return found
