"""What a policy sees of the cluster during a replay: states, expected waits, users' shares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from berth.policies.lookahead import Lookahead
from berth.policies.replay.cluster import Cluster
from berth.policies.replay.placement import Option, Present
from berth.policies.replay.trace import Trace
from berth.policies.shares import UsedShares
from berth.policies.values import Candidate, CandidateState
from berth.policies.waits import Waits

HALF_LIFE_S = 7 * 86_400.0
"""Of what users have held, for their share."""


class Seen:
    """The candidates' states, read again once they are ``every_s`` old, as the daemon does."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        partition_of: Mapping[str, int],
        trace: Trace,
        cluster: Cluster,
        *,
        every_s: float,
        lookahead: bool,
        shares: bool,
    ) -> None:
        """``lookahead``: waits by the predicted ends of jobs (``policies.lookahead``), kept up to
        date at each submission; ``shares``: what users have held, likewise."""
        self._places = [(one, partition_of[one.name]) for one in candidates]
        self._every_s = 0.0 if lookahead or shares else every_s
        self._read_s = -math.inf
        self._numbers: tuple[tuple[int, int, int, int | None], ...] = ()
        self._states: dict[str, CandidateState] = {}
        self._trace = trace
        self._queues = {
            place: Lookahead(_units(cluster, place, gpus=one.is_gpu))
            for one, place in (self._places if lookahead else ())
        }
        self._held = np.zeros(max(len(trace.users), 1)) if shares else None
        self._held_at_s = 0.0

    def same_at(self, moment_s: float) -> bool:
        """Whether ``now`` still gives the same states then."""
        return moment_s - self._read_s < self._every_s

    def now(self, present: Present) -> Mapping[str, CandidateState]:
        """The states; the same object while nothing that counts has changed."""
        if self.same_at(present.now_s):
            return self._states
        self._read_s = present.now_s
        numbers = self._numbers_of(present)
        before, self._numbers = self._numbers, numbers
        if self._queues or self._held is not None:
            self._states = self._with_more(numbers, present.now_s)
        elif numbers != before:
            # The same object for each place of which nothing has changed.
            after = dict(self._states)
            for at, (cores, gpus, waiting, slices) in enumerate(numbers):
                if not before or before[at] != numbers[at]:
                    name = self._places[at][0].name
                    after[name] = CandidateState(True, cores, gpus, waiting, math.inf, slices)
            self._states = after
        return self._states

    def _numbers_of(self, present: Present) -> tuple[tuple[int, int, int, int | None], ...]:
        """Idle cores and GPUs, waiting jobs and, of slices, how many there are, by place."""
        waiting = present.waiting.tolist()
        rows = present.partition_units
        if all(len(rows[place]) == 1 for _, place in self._places):  # pools
            free = present.free.tolist()
            at = ((place, free[int(rows[place][0])]) for _, place in self._places)
            return tuple((one[0], one[1], waiting[place], None) for place, one in at)
        there = present.slices
        return tuple(
            (
                *present.free_in(place),
                waiting[place],
                None if there is None or one.slice_of is None else int(there[place]),
            )
            for one, place in self._places
        )

    def _with_more(
        self, numbers: Sequence[tuple[int, int, int, int | None]], now_s: float
    ) -> dict[str, CandidateState]:
        """With expected waits and users' shares."""
        shares = self._shares(now_s)
        return {
            one.name: CandidateState(
                up=True,
                idle_cores=cores,
                idle_gpus=gpus,
                pending_jobs=waiting,
                as_of_s=math.inf,
                usable_nodes=slices,
                used_shares=shares,
                waits=self._waits(place, gpus if one.is_gpu else cores, waiting, now_s),
            )
            for (one, place), (cores, gpus, waiting, slices) in zip(
                self._places, numbers, strict=True
            )
        }

    def placed(self, job: int, option: Option, expected_s: float, now_s: float) -> None:
        """A job was sent somewhere, and is predicted to run so long."""
        if self._queues:
            self._queues[option.partition].placed(option.gpus or option.cores, expected_s, now_s)
        if self._held is not None:
            self._decay(now_s)
            held = option.gpus or option.cores
            self._held[int(self._trace.user[job])] += held * expected_s

    def _waits(self, place: int, free: int, waiting: int, now_s: float) -> Waits | None:
        queue = self._queues.get(place)
        if queue is None:
            return None
        if not waiting:
            queue.empty_queue(free, now_s)
        return queue.waits(now_s)

    def _shares(self, now_s: float) -> UsedShares | None:
        if self._held is None:
            return None
        self._decay(now_s)
        mean = float(self._held.mean())
        if mean <= 0:
            return UsedShares({})
        relative = (self._held / mean).tolist()
        return UsedShares(dict(zip(self._trace.users, relative, strict=False)))

    def _decay(self, now_s: float) -> None:
        if self._held is not None:
            self._held *= 0.5 ** (max(0.0, now_s - self._held_at_s) / HALF_LIFE_S)
            self._held_at_s = now_s


def _units(cluster: Cluster, partition: int, *, gpus: bool) -> int:
    kinds = [cluster.kind(name) for name in cluster.partitions[partition].kinds]
    return sum(kind.count * (kind.gpus if gpus else kind.cores) for kind in kinds)
