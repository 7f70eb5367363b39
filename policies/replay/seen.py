"""A policy's view of the cluster during a replay: candidate states and expected waits.

Expected waits come from a model of each queue: jobs start in order of arrival and end at their
predicted ends. Each placed job is added to the model, which gives the wait of a new job by size.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from berth.policies.replay.cluster import Cluster
from berth.policies.replay.placement import Option, Present
from berth.policies.values import Candidate, CandidateState
from berth.policies.waits import Waits
from berth.predictor.core.prediction import Interval


class SeenStates:
    """The candidates' states, refreshed once they are ``every_s`` seconds old, as in the daemon."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        partition_of: Mapping[str, int],
        cluster: Cluster,
        *,
        every_s: float,
        lookahead: bool,
    ) -> None:
        """Refresh the states once they are ``every_s`` seconds old.

        ``lookahead``: expected waits from the predicted ends of jobs, updated at each submission.
        """
        self._candidates = [(candidate, partition_of[candidate.name]) for candidate in candidates]
        self._every_s = 0.0 if lookahead else every_s
        self._read_s = -math.inf
        self._numbers: tuple[tuple[int, int, int, int | None], ...] = ()
        self._states: dict[str, CandidateState] = {}
        self._queues = {
            partition: Lookahead(_units(cluster, partition, gpus=candidate.is_gpu))
            for candidate, partition in (self._candidates if lookahead else ())
        }

    def same_at(self, moment_s: float) -> bool:
        """Return whether ``now`` would still return the same states at that moment."""
        return moment_s - self._read_s < self._every_s

    def now(self, present: Present) -> Mapping[str, CandidateState]:
        """Return the states by candidate name; the same object while no relevant number has
        changed."""
        if self.same_at(present.now_s):
            return self._states
        self._read_s = present.now_s
        numbers = self._numbers_of(present)
        before, self._numbers = self._numbers, numbers
        if self._queues:
            self._states = self._with_more(numbers, present.now_s)
        elif numbers != before:
            # A candidate whose numbers have not changed keeps the same object.
            after = dict(self._states)
            for at, (cores, gpus, waiting, slices) in enumerate(numbers):
                if not before or before[at] != numbers[at]:
                    name = self._candidates[at][0].name
                    after[name] = CandidateState(True, cores, gpus, waiting, math.inf, slices)
            self._states = after
        return self._states

    def _numbers_of(self, present: Present) -> tuple[tuple[int, int, int, int | None], ...]:
        """Return each candidate's idle cores, idle GPUs, waiting jobs and slices (None: not a
        slice)."""
        waiting = present.waiting.tolist()
        rows = present.partition_units
        if all(len(rows[partition]) == 1 for _, partition in self._candidates):  # pools
            free = present.free.tolist()
            return tuple(
                (*free[int(rows[partition][0])][:2], waiting[partition], None)
                for _, partition in self._candidates
            )
        return tuple(
            (
                *present.free_in(partition),
                waiting[partition],
                None if candidate.slice_of is None else len(rows[partition]),
            )
            for candidate, partition in self._candidates
        )

    def _with_more(
        self, numbers: Sequence[tuple[int, int, int, int | None]], now_s: float
    ) -> dict[str, CandidateState]:
        return {
            candidate.name: CandidateState(
                up=True,
                idle_cores=cores,
                idle_gpus=gpus,
                pending_jobs=waiting,
                as_of_s=math.inf,
                usable_nodes=slices,
                waits=self._waits(partition, gpus if candidate.is_gpu else cores, waiting, now_s),
            )
            for (candidate, partition), (cores, gpus, waiting, slices) in zip(
                self._candidates, numbers, strict=True
            )
        }

    def placed(self, option: Option, expected_s: float, now_s: float) -> None:
        """Record that a job was sent to this option and is predicted to run ``expected_s``
        seconds."""
        if self._queues:
            self._queues[option.partition].placed(option.gpus or option.cores, expected_s, now_s)

    def _waits(self, partition: int, free: int, waiting: int, now_s: float) -> Waits | None:
        queue = self._queues.get(partition)
        if queue is None:
            return None
        if not waiting:
            queue.empty_queue(free, now_s)
        return queue.waits(now_s)


def _units(cluster: Cluster, partition: int, *, gpus: bool) -> int:
    kinds = [cluster.kind(name) for name in cluster.partitions[partition].kinds]
    return sum(kind.count * (kind.gpus if gpus else kind.cores) for kind in kinds)


MOST_UNITS = 2_048
"""Most units in a queue's model; larger queues are modelled in groups of cores or GPUs."""


class Lookahead:
    """Model of one queue of cores or GPUs: jobs start in order of arrival, as soon as enough are
    free."""

    def __init__(self, units: int) -> None:
        self._each = max(1, -(-units // MOST_UNITS))
        count = max(1, units // self._each)
        self._free_at = np.full(count, -math.inf)
        """The times at which each unit is predicted to be free, sorted."""
        self._last_start = -math.inf
        self._classes = tuple(
            dict.fromkeys((*(2**i for i in range(count.bit_length()) if 2**i < count), count))
        )

    def placed(self, units: int, runtime_s: float, now_s: float) -> float:
        """Add a job to the queue and return its predicted start."""
        held = self._held(units)
        start = self._start(held, now_s)
        self._free_at[:held] = start + runtime_s
        self._free_at.sort()
        self._last_start = start
        return start

    def empty_queue(self, free: int, now_s: float) -> None:
        """Correct the model: no job waits, and ``free`` units are idle now."""
        self._last_start = -math.inf
        free = min(free // self._each, len(self._free_at))
        self._free_at[:free] = np.minimum(self._free_at[:free], now_s)
        self._free_at[free:] = np.maximum(self._free_at[free:], now_s)

    def waits(self, now_s: float) -> LookaheadWaits:
        """Return the waits of a job submitted now, which are computed by size on demand."""
        return LookaheadWaits(self, now_s)

    def wait_s(self, units: int, now_s: float) -> float:
        """Return the wait of a job of ``units`` cores or GPUs that is submitted now, in seconds."""
        place = bisect_left(self._classes, -(-units // self._each))
        size = self._classes[min(place, len(self._classes) - 1)]
        return self._start(size, now_s) - now_s

    def _held(self, units: int) -> int:
        return min(max(1, -(-units // self._each)), len(self._free_at))

    def _start(self, held: int, now_s: float) -> float:
        return max(now_s, self._last_start, float(self._free_at[held - 1]))


class LookaheadWaits(NamedTuple):
    """The expected waits in a queue at one moment."""

    queue: Lookahead
    now_s: float

    def at(self, units: int, runtime_s: float) -> Interval:
        """Return the wait for a job of ``units`` as an interval of no width; the run time does not
        matter."""
        del runtime_s  # the wait does not depend on it: there is no backfill in this model
        wait_s = self.queue.wait_s(units, self.now_s)
        return Interval(wait_s, wait_s, wait_s)
