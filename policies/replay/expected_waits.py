"""How long a job that comes now would wait, by its size and length, from a replay of the queue."""

from __future__ import annotations

import math

import numpy as np

from berth.policies.replay.columns import Floats, Ints
from berth.policies.replay.replayed import Replayed
from berth.policies.waits import WaitTable
from berth.predictor.core.prediction import Interval

LENGTHS_S = (600.0, 3_600.0, 14_400.0, 86_400.0, math.inf)
"""Upper bounds of the classes of run time."""


def wait_table(
    done: Replayed, partition: int, *, cores: int, gpus: int = 0, cores_per_gpu: int = 1
) -> WaitTable:
    """Of a partition with so many cores and GPUs, by GPUs where there are any; now is 0.

    A job waits until nothing that was replayed keeps it from running to its end: it comes last,
    starts in a gap where it fits, and delays nobody.
    """
    here = np.flatnonzero((done.partition == partition) & done.ran)
    times, free = _free(done, here, cores, gpus)
    capacity, units = cores, free[:, 0]
    if gpus:
        capacity, units = gpus, np.minimum(free[:, 1], free[:, 0] // max(cores_per_gpu, 1))
    sizes = sorted({*(2**i for i in range(capacity.bit_length())), max(capacity, 1)})
    rows = []
    for size in sizes:
        waits = _starts(times, units >= min(size, int(units[-1])))
        rows.append(tuple(Interval(wait, wait, wait) for wait in waits))
    return WaitTable(tuple(sizes), LENGTHS_S, tuple(rows))


def _free(done: Replayed, rows: Ints, cores: int, gpus: int) -> tuple[Floats, Ints]:
    """``(times, free)``: cores and GPUs free from each moment until the next, the last for good."""
    held = np.stack([done.cores[rows], done.gpus[rows]], axis=1)
    moments = np.concatenate([np.zeros(1), np.maximum(done.start_s[rows], 0.0), done.end_s[rows]])
    change = np.concatenate([np.array([[cores, gpus]], np.int64), -held, held])
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
