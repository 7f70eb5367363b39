"""Jobs' options as columns: which partition, how many nodes, what of each, for how long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.pilot.bounded import BoundedCache
from berth.policies.replay.cluster import Cluster
from berth.policies.replay.columns import Flags, Floats, Ints
from berth.policies.replay.kernel.state import RESOURCES
from berth.policies.replay.placement import Option
from berth.policies.replay.settings import Settings
from berth.policies.replay.trace import Trace

MIB = 2**20
_KNOWN = 50_000
SHORTEST_S = 1e-3
"""Plans are at least so long: a reservation of no length would hold nothing."""
LARGER, NO_TIME, NO_PARTITION, NEGATIVE = (
    "larger than its partition", "no known run time", "an unknown partition", "a negative number",
)  # fmt: skip


class Units:
    """Nodes, or pools, in rows; which rows each partition has."""

    def __init__(self, cluster: Cluster) -> None:
        rows: list[tuple[int, int, int]] = []
        first: dict[str, int] = {}
        for kind in cluster.kinds:
            first[kind.name] = len(rows)
            one = (kind.cores, kind.gpus, kind.memory_bytes // MIB)
            if cluster.pooled:
                rows.append((one[0] * kind.count, one[1] * kind.count, one[2] * kind.count))
            else:
                rows += [one] * kind.count
        self.pooled = cluster.pooled
        self.first = first
        self.capacity: Ints = np.array(rows, np.int64).reshape(-1, RESOURCES)
        self.of: tuple[Ints, ...] = tuple(
            np.array(self._members(cluster, place), np.int64)
            for place in range(len(cluster.partitions))
        )
        self.largest: Ints = np.array(
            [np.maximum(self.capacity[one].max(axis=0, initial=1), 1) for one in self.of]
        )
        """[partitions][resources] of the largest node."""
        self.counts_memory = [
            any(cluster.kind(name).memory_bytes for name in part.kinds)
            for part in cluster.partitions
        ]
        self.slices: Flags = np.array(
            [any(name in cluster.slice_kinds for name in p.kinds) for p in cluster.partitions], bool
        )
        """[partitions] of slices, where the host's cores and memory do not count."""
        self.known: BoundedCache[tuple[int, ...], tuple[int, Ints, bool]] = BoundedCache(_KNOWN)
        """What ``row_of`` found."""
        self.longest: Floats = np.array(
            [np.inf if p.max_time_s is None else p.max_time_s for p in cluster.partitions]
        )

    def _members(self, cluster: Cluster, place: int) -> list[int]:
        part = cluster.partitions[place]
        found: list[int] = []
        for name in part.kinds:
            begin = self.first[name]
            count = 1 if cluster.pooled else cluster.kind(name).count
            chosen = range(count) if part.nodes is None else part.nodes
            found += [begin + node for node in chosen]
        return found

    def need(
        self, part: Ints, nodes: Ints, cores: Ints, gpus: Ints, memory_bytes: Ints
    ) -> tuple[Ints, Ints]:
        """``(units, need)`` of each row: nodes and what is taken of each, or all of a pool."""
        nodes = np.maximum(nodes, 1)
        counted = np.array(self.counts_memory, bool)[part] if len(part) else np.zeros(0, bool)
        memory = np.where(counted, -(-memory_bytes // MIB), 0)
        cores = np.where(gpus > 0, cores, np.maximum(cores, 1))
        if self.slices.any() and len(part):
            sliced = self.slices[part]
            nodes = np.where(sliced, 1, nodes)
            cores, gpus = np.where(sliced, 0, cores), np.where(sliced, np.maximum(gpus, 1), gpus)
        if self.pooled:
            return np.ones_like(nodes), np.stack([cores, gpus, memory * nodes], axis=1)
        # Those that do not say how many nodes they want get as many as they fill.
        for r, column in ((0, cores), (1, gpus)):
            nodes = np.maximum(nodes, -(-column // self.largest[part, r]))
        return nodes, np.stack([-(-cores // nodes), -(-gpus // nodes), memory], axis=1)

    def fits(self, part: Ints, units: Ints, need: Ints) -> Flags:
        """[rows] whether the empty partition has room."""
        found = np.zeros(len(part), bool)
        for place, members in enumerate(self.of):
            rows = np.flatnonzero(part == place)
            if not len(rows):
                continue
            kinds, counts = np.unique(self.capacity[members], axis=0, return_counts=True)
            able = np.zeros(len(rows), np.int64)
            for kind, count in zip(kinds, counts, strict=True):
                able += count * np.all(need[rows] <= kind, axis=1)
            found[rows] = able >= units[rows]
        return found


class Columns:
    """[options] of a trace that stays where it was submitted, and why jobs are refused."""

    def __init__(self, trace: Trace, cluster: Cluster, settings: Settings, units: Units) -> None:
        names = [part.name for part in cluster.partitions]
        place = np.array([names.index(q) if q in names else -1 for q in trace.queues], np.int64)
        if len(names) == 1 and len(trace):
            self.part = np.zeros(len(trace), np.int64)
        elif len(trace):
            self.part = np.where(trace.queue >= 0, place[trace.queue], -1)
        else:
            self.part = np.zeros(0, np.int64)
        known = np.maximum(self.part, 0)
        self.units, self.need = units.need(
            known, trace.nodes, trace.cores, trace.gpus, trace.memory_bytes
        )
        self.run = trace.runtime_s + held_beside_s(settings)
        limit = trace.limit_s.copy()
        default = np.minimum(units.longest, settings.default_limit_s)
        default = np.where(np.isfinite(units.longest), units.longest, default)
        limit = np.where(np.isnan(limit), default[known], np.minimum(limit, units.longest[known]))
        planned = limit if trace.planned_s is None else trace.planned_s
        planned = np.where(np.isnan(planned), limit, np.minimum(planned, limit))
        self.plan = np.maximum(planned, SHORTEST_S)
        limit = limit + held_beside_s(settings)
        self.limit = limit if settings.kill_at_limit else np.full(len(trace), np.inf)
        self.why = np.zeros(len(trace), np.int64)
        """Place in ``REASONS``; 0: none."""
        negative = (
            (trace.runtime_s < 0)
            | (trace.limit_s < 0)
            | (trace.cores < 0)
            | (trace.gpus < 0)
            | (trace.memory_bytes < 0)
        )
        larger = ~units.fits(known, self.units, self.need)
        self.why[larger] = REASONS.index(LARGER)
        self.why[self.part < 0] = REASONS.index(NO_PARTITION)
        self.why[np.isnan(self.run)] = REASONS.index(NO_TIME)
        self.why[negative] = REASONS.index(NEGATIVE)


def held_beside_s(settings: Settings) -> float:
    """What a job holds its nodes for besides its run time."""
    return settings.start_overhead_s + settings.end_overhead_s


@dataclass(frozen=True)
class Inputs:
    """What is replayed, and the columns made of it."""

    trace: Trace
    cluster: Cluster
    settings: Settings
    units: Units
    rows: Columns


def inputs(trace: Trace, cluster: Cluster, settings: Settings) -> Inputs:
    """Columns of a trace on a cluster."""
    units = Units(cluster)
    return Inputs(trace, cluster, settings, units, Columns(trace, cluster, settings, units))


REASONS = ("", LARGER, NO_TIME, NO_PARTITION, NEGATIVE)


def row_of(option: Option, units: Units) -> tuple[int, Ints, bool]:
    """``(units, need, fits)`` of a placement's option."""
    key = option[:5]
    found = units.known.get(key)
    if found is None:
        part, *columns = (np.array([one]) for one in key)
        one, need = units.need(part, *columns)
        fits = bool(units.fits(part, one, need)[0])
        found = units.known.put(key, (int(one[0]), need[0], fits))
    return found
