"""A Replayer for tunes that replays a trace on a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from berth.policies.mig.layout import Layout
from berth.policies.replay import Cluster, Replayed, Settings, Trace, replay
from berth.policies.replay.cluster import full_layouts
from berth.policies.replay.deciding import Decided
from berth.policies.replay.predicted import Columns
from berth.policies.replay.settings import PATIENCE, Recutting
from berth.policies.replay.trace import Floats
from berth.policies.settings import PolicySettings
from berth.policies.tuning.parameters import Slicing
from berth.policies.tuning.replayer import Figures, Part
from berth.policies.values import Candidate


@dataclass(frozen=True)
class TraceReplayer:
    """A Replayer of a trace; ``predicted``: [jobs] predicted run times by platform, used by
    policies.
    """

    trace: Trace
    cluster: Cluster
    settings: Settings
    candidates: tuple[Candidate, ...]
    partition_of: Mapping[str, int]
    """Index of each candidate's partition, by the candidate's name."""
    predicted: Mapping[str, Floats] = field(default_factory=dict)
    spread: float | Floats = 1.25
    """Ratio of an interval's upper end to its central value, of all jobs or [jobs]."""
    lookahead: bool = False
    """True: expected waits come from the predicted ends of jobs, updated at each submission."""
    notes: tuple[str, ...] = ()
    """Lines for the report on jobs that were changed or left out when they were read."""
    known: dict[Part, tuple[Trace, Columns]] = field(default_factory=dict, repr=False)
    """Cache of each part's jobs and their predictions, which are the same for all policies."""

    def in_pools(self) -> TraceReplayer:
        """Return a faster replayer of the same jobs in pools of cores and GPUs, where the
        cluster allows pools.
        """
        if not self.cluster.can_pool:
            return self
        return replace(self, cluster=replace(self.cluster, pooled=True), known={})

    @property
    def layouts(self) -> tuple[str, ...]:
        """Return the MIG layouts without room for another slice; empty: no MIG GPUs, or several
        models.
        """
        if len({(gpus.geometry.gpu, gpus.profiles) for gpus in self.cluster.sliced}) != 1:
            return ()
        return tuple(str(layout) for layout in full_layouts(self.cluster.sliced[0]))

    @property
    def slicing(self) -> Slicing:
        """Return the initial layout of the MIG GPUs and the rules for re-partitioning them."""
        layouts = {str(gpus.layout) for gpus in self.cluster.sliced}
        rules = self.settings.recutting
        return Slicing(
            layouts.pop() if len(layouts) == 1 else "",
            rules is not None,
            PATIENCE if rules is None else rules.patience,
        )

    def cut(self, slicing: Slicing) -> TraceReplayer:
        """Return a replayer of the same jobs with the MIG GPUs partitioned by ``slicing``.

        Raises UsageError where a GPU cannot have the layout.
        """
        if slicing == self.slicing:
            return self
        sliced = self.cluster.sliced
        if slicing.layout:
            layout = Layout.parse(slicing.layout)
            sliced = tuple(replace(gpus, layout=layout) for gpus in sliced)
        rules = None
        if slicing.recut:
            rules = replace(self.settings.recutting or Recutting(), patience=slicing.patience)
        return replace(
            self,
            cluster=replace(self.cluster, sliced=sliced),
            settings=replace(self.settings, recutting=rules),
        )

    @property
    def span_s(self) -> float:
        """Return the seconds from the first to the last submission; 0 for an empty trace."""
        return float(self.trace.submit_s[-1] - self.trace.submit_s[0]) if len(self.trace) else 0.0

    def replay(self, policy: PolicySettings, part: Part) -> Figures:
        """Return the figures of the jobs in ``part`` if they had been placed by ``policy``."""
        return self.figures(self.replayed(policy, part), float(self.trace.submit_s[0]))

    def replayed(self, policy: PolicySettings, part: Part) -> Replayed:
        """Return the replay of a part of the trace under a policy."""
        if part not in self.known:
            self.known[part] = self._of(part)
        trace, predictions = self.known[part]
        placed = Decided(
            self.candidates, self.partition_of, policy, predictions,
            trace=trace, cluster=self.cluster, lookahead=self.lookahead,
        )  # fmt: skip
        return replay(trace, self.cluster, self.settings, placed)

    def _of(self, part: Part) -> tuple[Trace, Columns]:
        since = self.trace.submit_s - (self.trace.submit_s[0] if len(self.trace) else 0.0)
        rows = np.flatnonzero((since >= part.begin_s) & (since < part.end_s))
        predicted = {name: column[rows] for name, column in self.predicted.items()}
        spread = self.spread if isinstance(self.spread, float) else self.spread[rows]
        columns = Columns(predicted, self.candidates, spread=spread)
        return self.trace.rows(rows), columns

    def figures(self, done: Replayed, first_s: float) -> Figures:
        """Return the figures of a replay from which a tune computes its metrics."""
        ended = np.flatnonzero(done.ran)
        trace, partition = done.trace, done.partition[ended]
        run = done.end_s[ended] - done.start_s[ended]
        cost, power = self._rates(partition)
        cores, gpus, nodes = (column[ended] for column in (done.cores, done.gpus, done.nodes))
        held = np.stack([nodes, cores, gpus], axis=1)
        partitions = self.cluster.partitions
        return Figures(
            submit_s=trace.submit_s[ended] - first_s,
            wait_s=done.start_s[ended] - trace.submit_s[ended],
            runtime_s=run,
            user=trace.user[ended],
            cost=(cost * held).sum(axis=1) * run / 3600.0,
            energy_j=(power * held).sum(axis=1) * run,
            core_s=np.maximum(cores, 1) * run,
            queue=partition,
            users=trace.users,
            queues=tuple(part.name for part in partitions),
            capacity={part.name: self._cores(part.kinds) for part in partitions},
            killed=done.counts.killed,
            unjudged=done.counts.not_judged,
            jobs=done.counts.read,
            only_here=_only_here(trace, [candidate.platform for candidate in self.candidates]),
            refused=done.counts.refused,
        )

    def _rates(self, partition: np.ndarray) -> tuple[Floats, Floats]:
        """Return [jobs][nodes, cores, GPUs] price per hour and power in watts; NaN where none is
        known.
        """
        cost = np.full((len(self.cluster.partitions), 3), np.nan)
        power = cost.copy()
        for candidate in self.candidates:
            index = self.partition_of[candidate.name]
            prices = (
                candidate.price_per_node_hour,
                candidate.price_per_core_hour,
                candidate.price_per_gpu_hour,
            )
            watts = (None, candidate.power_per_core_w, candidate.power_per_gpu_w)
            cost[index] = _row(prices)
            power[index] = _row(watts)
        return cost[partition], power[partition]

    def _cores(self, kinds: Sequence[str]) -> float:
        return float(sum(self.cluster.kind(k).cores * self.cluster.kind(k).count for k in kinds))


def _only_here(trace: Trace, platforms: Iterable[str]) -> int:
    """Return the number of jobs whose run time is known on at most one platform."""
    used = set(platforms)
    known = [np.isfinite(column) for name, column in trace.runtime_on.items() if name in used]
    return int(np.sum(np.sum(known, axis=0) < 2)) if known else len(trace)


def _row(values: Sequence[float | None]) -> list[float]:
    if all(value is None for value in values):
        return [np.nan] * len(values)
    return [value or 0.0 for value in values]
