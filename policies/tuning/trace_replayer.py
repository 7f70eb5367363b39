"""Replays a trace on a cluster for a tune."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from berth.pilot.bounded import BoundedCache
from berth.pilot.units import J_PER_KWH
from berth.policies.ranking import Assessments
from berth.policies.replay import Cluster, Replayed, Settings, Trace, replay
from berth.policies.replay.deciding import Decided, requests_of
from berth.policies.replay.metrics import spent
from berth.policies.replay.predicted import ForecastColumns
from berth.policies.settings import PolicySettings, Weights
from berth.policies.tuning.figures import ReplayFigures, TracePart
from berth.policies.values import Candidate, Request

ASSESSED_KEPT = 200_000
"""Number of assessments of a candidate for a job that are cached, of 1 to 2 KiB each."""
MOST_ALIKE = 2
"""Number of groups of policies for which assessments are cached."""


class _JobsOfPart(NamedTuple):
    """The jobs of a part of the trace, as all replays of the part take them."""

    trace: Trace
    predictions: ForecastColumns
    requests: Sequence[Request]


@dataclass(frozen=True)
class TraceReplayer:
    """Replays parts of a trace under policies; the same arguments always give the same figures."""

    trace: Trace
    cluster: Cluster
    settings: Settings
    candidates: tuple[Candidate, ...]
    partition_of: Mapping[str, int]
    """Index of each candidate's partition, by the candidate's name."""
    predictions: ForecastColumns
    """Predicted run times of the jobs, used by policies."""
    lookahead: bool = False
    """True: expected waits come from the predicted ends of jobs, updated at each submission."""
    notes: tuple[str, ...] = ()
    """Lines for the report on jobs that were changed or left out when they were read."""
    parts: dict[TracePart, _JobsOfPart] = field(default_factory=dict, repr=False)
    """Cache of each part's jobs, which are the same for all policies and clusters."""
    assessed: BoundedCache[PolicySettings, Assessments] = field(
        default_factory=lambda: BoundedCache(MOST_ALIKE), repr=False
    )
    """Cache of what decisions on a job share under policies that differ in objective and weights
    only, by one of these policies."""

    def in_pools(self) -> TraceReplayer:
        """Return a faster replayer of the same jobs in pools of cores and GPUs, where the cluster
        allows pools."""
        if not self.cluster.can_pool:
            return self
        return replace(self, cluster=replace(self.cluster, pooled=True))

    @property
    def span_s(self) -> float:
        """Return the seconds from the first to the last submission; 0 for an empty trace."""
        return float(self.trace.submit_s[-1] - self.trace.submit_s[0]) if len(self.trace) else 0.0

    def replay(self, policy: PolicySettings, part: TracePart) -> ReplayFigures:
        """Return the figures of the jobs in ``part`` if they had been placed by ``policy``."""
        return figures_of(self.replayed(policy, part), float(self.trace.submit_s[0]))

    def replayed(self, policy: PolicySettings, part: TracePart) -> Replayed:
        """Return the replay of a part of the trace under a policy."""
        if part not in self.parts:
            self.parts[part] = self._jobs_of(part)
        jobs = self.parts[part]
        alike = policy.model_copy(
            update={"objective": "", "weights": Weights(), "alike_within": 1.0}
        )
        kept = ASSESSED_KEPT // len(self.candidates)
        placed = Decided(
            self.candidates, self.partition_of, policy, jobs.predictions,
            trace=jobs.trace, cluster=self.cluster, lookahead=self.lookahead,
            unscored=self.assessed.get_or_make(alike, lambda: Assessments(kept)),
            requests=jobs.requests,
        )  # fmt: skip
        return replay(jobs.trace, self.cluster, self.settings, placed)

    def _jobs_of(self, part: TracePart) -> _JobsOfPart:
        since = self.trace.submit_s - (self.trace.submit_s[0] if len(self.trace) else 0.0)
        rows = np.flatnonzero((since >= part.begin_s) & (since < part.end_s))
        trace = self.trace.rows(rows)
        return _JobsOfPart(trace, self.predictions.rows(rows), requests_of(trace))


def figures_of(done: Replayed, first_s: float | None = None) -> ReplayFigures:
    """Return the figures of a replay from which a tune computes its metrics; ``first_s``: the
    moment from which times of submission are counted, None: the first of them."""
    ended = np.flatnonzero(done.ran)
    if first_s is None:
        first_s = float(done.trace.submit_s.min(initial=np.inf))
    trace, cluster = done.trace, done.cluster
    run_s = done.end_s[ended] - done.start_s[ended]
    kwh, cost = spent(done, ended)
    parts = cluster.partitions
    cores = {kind.name: float(kind.cores * kind.count) for kind in cluster.kinds}
    platforms = {kind.platform or kind.name for kind in cluster.kinds}
    known = [np.isfinite(times) for name, times in trace.runtime_on.items() if name in platforms]
    return ReplayFigures(
        submit_s=trace.submit_s[ended] - first_s,
        wait_s=done.start_s[ended] - trace.submit_s[ended],
        runtime_s=run_s,
        user=trace.user[ended],
        cost=cost,
        energy_j=kwh * J_PER_KWH,
        core_s=np.maximum(done.cores[ended], 1) * run_s,
        queue=done.partition[ended],
        users=trace.users,
        queues=tuple(part.name for part in parts),
        capacity={part.name: sum(cores[kind] for kind in part.kinds) for part in parts},
        killed=done.counts.killed,
        unjudged=done.counts.not_judged,
        jobs=done.counts.read,
        ended=len(ended),
        only_here=int(np.sum(np.sum(known, axis=0) < 2)) if known else len(trace),
        refused=done.counts.refused,
    )
