"""The production Decider as the placement of a replay: each job decided at its submission."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from berth.pilot.bounded import BoundedCache
from berth.policies.decide import Decider
from berth.policies.lookahead import Lookahead
from berth.policies.replay.cluster import Cluster
from berth.policies.replay.columns import Floats, Ints
from berth.policies.replay.placement import Option, Present
from berth.policies.replay.trace import Trace
from berth.policies.settings import PolicySettings
from berth.policies.shares import UsedShares
from berth.policies.values import Candidate, CandidateState, Ranked, Request, Resources
from berth.policies.waits import WaitTable
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis, Bound, Interval, Prediction, PredictionCurve
from berth.predictor.core.sizes import SizeLaw

GIB = 2**30
HALF_LIFE_S = 7 * 86_400.0
"""Of what users have held, for their share."""
_FORECASTS = 20_000


class Decided:
    """Places jobs of a trace on a site's candidates; one for each replay."""

    def __init__(
        self,
        trace: Trace,
        cluster: Cluster,
        candidates: Sequence[Candidate],
        policy: PolicySettings,
        predicted: Mapping[str, Floats],
        *,
        spread: float = 1.25,
    ) -> None:
        """``predicted``: run times by platform [jobs], NaN where nothing is predicted; ``spread``:
        upper / middle of their intervals. The truth is the trace's ``runtime_on``."""
        partitions = {part.name: i for i, part in enumerate(cluster.partitions)}
        self._places = [(c, partitions[c.queue]) for c in candidates if c.queue in partitions]
        self._decider = Decider([c for c, _ in self._places], policy, identified=False)
        self._partition = {c.name: i for c, i in self._places}
        self._queue = {c.name: c.queue for c, _ in self._places}
        self._gpu = {c.platform: c.is_gpu for c, _ in self._places}
        self._trace = trace
        self._predicted = {p: column for p, column in predicted.items() if p in self._gpu}
        self._platforms = tuple(self._predicted)
        self._spread = spread
        self._forecasts: BoundedCache[object, Forecast | None] = BoundedCache(_FORECASTS)
        self._states: dict[str, CandidateState] = {}
        self._seen: tuple[object, ...] = ()
        self._lookaheads = {
            place: Lookahead(_units(cluster, place, gpus=c.is_gpu)) for c, place in self._places
        }
        self._waits = policy.weights.wait > 0 or self._decider.objective.waits
        self._wants_shares = policy.objective == "throughput-fair"
        self._held = np.zeros(max(len(trace.users), 1))
        self._held_at_s = 0.0

    def place(self, job: int, present: Present) -> Sequence[Option] | None:
        """See Placement."""
        forecast = self._forecast(job)
        if forecast is None:
            return ()
        request = self._request(job)
        decision = self._decider.decide(request, self._now(present), forecast, present.now_s)
        if decision.chosen is None or decision.edit is None:
            return None
        listed = (decision.edit.queue or self._queue[decision.chosen]).split(",")
        limit_s = decision.edit.time_limit_s or request.time_limit_s
        found: list[Option] = []
        for queue in listed:
            row = next(r for r in decision.ranked if self._queue[r.candidate] == queue)
            option = self._option(job, row, limit_s)
            if option is None:
                return ()
            found.append(option)
        if self._waits:
            held, row = found[0], decision.ranked[0]
            expected_s = 0.0 if row.runtime_s is None else row.runtime_s.mid
            ahead = self._lookaheads[held.partition]
            ahead.placed(held.gpus or held.cores, expected_s, present.now_s)
        if self._wants_shares:
            self._hold(job, found[0], present.now_s)
        return found

    def _option(self, job: int, row: Ranked, limit_s: float | None) -> Option | None:
        truth = self._trace.runtime_on.get(row.platform)
        runtime_s = math.nan if truth is None else float(truth[job])
        if math.isnan(runtime_s) or row.runtime_s is None:
            return None
        held = row.resources
        return Option(
            partition=self._partition[row.candidate],
            nodes=max(1, held.nodes),
            cores=held.cores,
            gpus=held.gpus,
            memory_bytes=held.memory_bytes_per_node or 0,
            runtime_s=runtime_s,
            planned_s=limit_s if limit_s is not None else row.runtime_s.high,
            limit_s=math.inf if limit_s is None else limit_s,
        )

    def _request(self, job: int) -> Request:
        trace = self._trace
        limit_s, memory = float(trace.limit_s[job]), int(trace.memory_bytes[job])
        queue, user = int(trace.queue[job]), int(trace.user[job])
        gpus = int(trace.gpus[job])
        return Request(
            user=trace.users[user] if trace.users else str(user),
            account=None,
            resources=Resources(
                nodes=max(0, int(trace.nodes[job])),
                tasks=max(1, int(trace.cores[job])),
                gpus=gpus,
                memory_bytes_per_node=memory or None,
            ),
            queue=trace.queues[queue] if 0 <= queue < len(trace.queues) else None,
            wants_placement=True,
            gres=f"gpu:{gpus}" if gpus else None,
            time_limit_s=limit_s if math.isfinite(limit_s) else None,
            profile="job",
        )

    def _forecast(self, job: int) -> Forecast | None:
        """The job's predictions as the filter gets them; None: there are none."""
        times = tuple(float(column[job]) for column in self._predicted.values())
        found = self._forecasts.get(times)
        if found is None and not all(math.isnan(one) for one in times):
            found = self._forecasts.put(times, self._made(times))
        return found

    def _made(self, times: Sequence[float]) -> Forecast:
        curves = {}
        for platform, mid in zip(self._platforms, times, strict=True):
            if not mid > 0:
                continue
            is_gpu = self._gpu[platform]
            point = Prediction(
                workload="job",
                platform=platform,
                cores=0 if is_gpu else 1,
                gpus=1 if is_gpu else 0,
                basis=Basis.CALIBRATED,
                speedup=Interval(1.0, 1.0, 1.0),
                runtime_s=Interval(mid / self._spread, mid, mid * self._spread),
                memory_bytes=Interval(0.0, 0.0, 0.0),
                energy_j=None,
                bound=Bound.UNKNOWN,
            )
            curves[platform] = PredictionCurve((point,))
        return Forecast(
            workload="job", kind="history", digest=repr(tuple(times)), bundle="",
            targets=("cpu", "cuda", "hip"), architecture=self._decider.candidates[0].architecture,
            instruction_sets=(), threads=1, ranks=1, gpus=0, container=None,
            reference_platform=self._platforms[0], reference_runtime_s=None,
            sizes=SizeLaw(None, None), curves=curves,
        )  # fmt: skip

    def _now(self, present: Present) -> Mapping[str, CandidateState]:
        """The places as they are; the same object while nothing that counts has changed."""
        shares = self._shares(present.now_s) if self._wants_shares else None
        seen = tuple(
            (*present.free_in(partition), int(present.waiting[partition]))
            for _, partition in self._places
        )
        if self._waits or seen != self._seen or shares is not None:
            self._seen = seen
            self._states = {
                candidate.name: CandidateState(
                    up=True, idle_cores=cores, idle_gpus=gpus, pending_jobs=waiting,
                    as_of_s=math.inf, used_shares=shares,
                    waits=self._table(
                        partition, gpus if candidate.is_gpu else cores, waiting, present.now_s
                    ),
                )
                for (candidate, partition), (cores, gpus, waiting) in zip(
                    self._places, seen, strict=True
                )
            }  # fmt: skip
        return self._states

    def _table(self, partition: int, free: int, waiting: int, now_s: float) -> WaitTable | None:
        if not self._waits:
            return None
        queue = self._lookaheads[partition]
        if not waiting:
            queue.empty_queue(free, now_s)
        return queue.table(now_s)

    def _hold(self, job: int, option: Option, now_s: float) -> None:
        self._decay(now_s)
        held: Ints | int = option.gpus or option.cores
        self._held[int(self._trace.user[job])] += held * option.planned_s

    def _shares(self, now_s: float) -> UsedShares:
        self._decay(now_s)
        mean = float(self._held.mean())
        if mean <= 0:
            return UsedShares({})
        return UsedShares(
            {name: float(h / mean) for name, h in zip(self._trace.users, self._held, strict=False)}
        )

    def _decay(self, now_s: float) -> None:
        self._held *= 0.5 ** (max(0.0, now_s - self._held_at_s) / HALF_LIFE_S)
        self._held_at_s = now_s


def _units(cluster: Cluster, partition: int, *, gpus: bool) -> int:
    kinds = [cluster.kind(name) for name in cluster.partitions[partition].kinds]
    return sum(kind.count * (kind.gpus if gpus else kind.cores) for kind in kinds)
