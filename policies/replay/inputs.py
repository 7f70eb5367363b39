"""Inputs of a replay as columns, and the arrays of the event loop at the begin of the replay.

An *option* is one partition in which a job may start, with the number of nodes, the resources per
node and the run time there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.pilot.bounded import BoundedCache
from berth.policies.replay.cluster import Cluster
from berth.policies.replay.kernel import state as at
from berth.policies.replay.kernel.claims import claim
from berth.policies.replay.kernel.queues import push
from berth.policies.replay.kernel.state import RESOURCES, State
from berth.policies.replay.placement import Option
from berth.policies.replay.settings import Backfill, Settings
from berth.policies.replay.trace import Flags, Floats, Ints, Trace

MIB = 2**20
_KNOWN = 50_000
SHORTEST_S = 1e-3
"""Least planned run time in seconds: a reservation of length 0 would hold nothing."""
LARGER, NO_TIME, NO_PARTITION, NEGATIVE = (
    "larger than its partition", "no known run time", "an unknown partition", "a negative number",
)  # fmt: skip
REASONS = ("", LARGER, NO_TIME, NO_PARTITION, NEGATIVE)
"""Reasons for refusing a job; the index is the number used in columns, 0: not refused."""
_MODES = {Backfill.FCFS: 0, Backfill.EASY: 1, Backfill.REPLANNED: 2}
_TRIED = 8


class Units:
    """The cluster's nodes (or pools) as rows with their capacities, and the rows of each
    partition.
    """

    def __init__(self, cluster: Cluster) -> None:
        rows: list[tuple[int, int, int]] = []
        first: dict[str, int] = {}
        for kind in cluster.kinds:
            first[kind.name] = len(rows)
            node = (kind.cores, kind.gpus, kind.memory_bytes // MIB)
            if cluster.pooled:
                rows.append((node[0] * kind.count, node[1] * kind.count, node[2] * kind.count))
            else:
                rows += [node] * kind.count
        self.pooled = cluster.pooled
        self.first = first
        self.capacity: Ints = np.array(rows, np.int64).reshape(-1, RESOURCES)
        self.of: tuple[Ints, ...] = tuple(
            np.array(self._members(cluster, place), np.int64)
            for place in range(len(cluster.partitions))
        )
        self.largest: Ints = np.array(
            [np.maximum(self.capacity[node].max(axis=0, initial=1), 1) for node in self.of]
        )
        """[partitions][resources] largest capacity of any node, at least 1."""
        self.counts_memory = [
            any(cluster.kind(name).memory_bytes for name in part.kinds)
            for part in cluster.partitions
        ]
        self.slices: Flags = np.array(
            [any(name in cluster.slice_kinds for name in p.kinds) for p in cluster.partitions], bool
        )
        """[partitions] whether the partition has MIG slices, without cores and memory."""
        self.known: BoundedCache[tuple[int, ...], tuple[int, Ints, bool]] = BoundedCache(_KNOWN)
        """Cache of ``row_of``."""
        self.longest: Floats = np.array(
            [np.inf if p.max_time_s is None else p.max_time_s for p in cluster.partitions]
        )

    def _members(self, cluster: Cluster, place: int) -> list[int]:
        part = cluster.partitions[place]
        members: list[int] = []
        for name in part.kinds:
            begin = self.first[name]
            count = 1 if cluster.pooled else cluster.kind(name).count
            chosen = range(count) if part.nodes is None else part.nodes
            members += [begin + node for node in chosen]
        return members

    def need(
        self, part: Ints, nodes: Ints, cores: Ints, gpus: Ints, memory_bytes: Ints
    ) -> tuple[Ints, Ints]:
        """Return each job's number of nodes and its need per node; in pools, (1, need of the
        whole job).

        ``need`` is [jobs][cores, GPUs, memory in MiB]; ``part``: the partition of each job.
        """
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
        # A job gets at least as many nodes as its cores and GPUs fill.
        for r, column in ((0, cores), (1, gpus)):
            nodes = np.maximum(nodes, -(-column // self.largest[part, r]))
        return nodes, np.stack([-(-cores // nodes), -(-gpus // nodes), memory], axis=1)

    def fits(self, part: Ints, units: Ints, need: Ints) -> Flags:
        """Return [rows] whether the job would fit in its partition if the partition were empty."""
        has_room = np.zeros(len(part), bool)
        for partition, members in enumerate(self.of):
            rows = np.flatnonzero(part == partition)
            if not len(rows):
                continue
            kinds, counts = np.unique(self.capacity[members], axis=0, return_counts=True)
            able = np.zeros(len(rows), np.int64)
            for kind, count in zip(kinds, counts, strict=True):
                able += count * np.all(need[rows] <= kind, axis=1)
            has_room[rows] = able >= units[rows]
        return has_room


class JobColumns:
    """Per-job columns of a trace whose jobs stay in their partitions, and why jobs are refused."""

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
        longest = units.longest[known]
        limit = np.where(np.isnan(trace.limit_s), longest, np.minimum(trace.limit_s, longest))
        expected = np.where(np.isfinite(limit), limit, settings.unlimited_plan_s)
        planned = expected if trace.planned_s is None else trace.planned_s
        planned = np.where(np.isnan(planned), expected, np.minimum(planned, limit))
        self.plan = np.maximum(planned, SHORTEST_S)
        limit = limit + held_beside_s(settings)
        self.limit = limit if settings.kill_at_limit else np.full(len(trace), np.inf)
        self.why = np.zeros(len(trace), np.int64)
        """Index into ``REASONS``; 0: the job is not refused."""
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
    """Return for how many seconds a job holds its nodes in addition to its run time."""
    return settings.start_overhead_s + settings.end_overhead_s


@dataclass(frozen=True)
class Inputs:
    """A trace, a cluster and settings, with the columns computed from them."""

    trace: Trace
    cluster: Cluster
    settings: Settings
    units: Units
    rows: JobColumns


def inputs_of(trace: Trace, cluster: Cluster, settings: Settings) -> Inputs:
    """Return the inputs of a replay: the arguments with their columns."""
    units = Units(cluster)
    return Inputs(trace, cluster, settings, units, JobColumns(trace, cluster, settings, units))


def row_of(option: Option, units: Units) -> tuple[int, Ints, bool]:
    """Return ``(nodes, need per node, fits)`` of an option that a placement gave; see ``Units``."""
    key = option[:5]
    row = units.known.get(key)
    if row is None:
        part, *columns = (np.array([number]) for number in key)
        count, need = units.need(part, *columns)
        fits = bool(units.fits(part, count, need)[0])
        row = units.known.put(key, (int(count[0]), need[0], fits))
    return row


def prepare(inputs: Inputs, room: int | None = None) -> State:
    """Return the state at the begin of a replay, with each job's own partition as its option.

    ``room``: number of options that a placement may give for a job; None: there is no placement.
    """
    trace, cluster, settings, units = inputs.trace, inputs.cluster, inputs.settings, inputs.units
    placed, room = room is not None, room or 1
    jobs, parts, pooled = len(trace), len(cluster.partitions), cluster.pooled
    members = [np.asarray(rows, np.int64) for rows in units.of]
    most = _most_running(units, jobs)
    options_table, spans, need = _options(inputs, room)
    size = 0 if cluster.pooled or placed else int(options_table[:, at.O_UNITS].sum())
    if size:
        held = options_table[:, at.O_UNITS]
        options_table[:, at.O_ALLOC_AT] = np.cumsum(held) - held
    claims = max(size + site_claims(cluster), 1)
    events = _events(most, jobs, cluster)
    state = State(
        counters=np.zeros(at.COUNTERS, np.int64),
        clock=np.zeros(at.CLOCK),
        jobs=_jobs(inputs, room),
        moments=np.full((jobs, at.MOMENT_COLUMNS), np.nan),
        options=options_table,
        need=need,
        spans=spans,
        parts=_parts(members, np.minimum(most, jobs)),
        part_values=np.full((parts, at.VALUE_COLUMNS), np.inf),
        extra=np.zeros((parts, at.RESOURCES), np.int64),
        run_options=np.zeros(int(np.minimum(most, jobs).sum()) + 1, np.int64),
        part_units=np.concatenate(members),
        capacity=units.capacity.copy(),
        free=units.capacity.copy(),
        nodes=np.zeros((len(units.capacity), 2), np.int64),
        claims=np.full((claims, at.CLAIM_COLUMNS), -1, np.int64),
        claim_times=np.zeros((claims, 2)),
        tried=np.zeros((parts, _TRIED, at.TRIED_COLUMNS), np.int64),
        tried_spans=np.zeros((parts, _TRIED, at.SPANS_TRIED)),
        times=np.zeros(claims + 1),
        heap_time=np.zeros(events),
        heap_code=np.zeros(events, np.int64),
        arrays=_arrays(trace),
    )
    state.moments[:, at.T_SUBMIT] = trace.submit_s
    state.nodes[:, at.N_HEAD] = -1
    state.nodes[:, at.N_BLOCKED] = 0
    if size:
        state.claims[:size, at.C_OWNER] = np.repeat(
            np.arange(len(options_table)), options_table[:, at.O_UNITS]
        )
    _configure(state, settings, pooled=pooled)
    _write_site(state, size, _site_claims(cluster, units))
    return state


def _jobs(inputs: Inputs, room: int) -> Ints:
    trace = inputs.trace
    jobs = np.zeros((len(trace), at.JOB_COLUMNS), np.int64)
    jobs[:, at.J_AFTER] = trace.after
    jobs[:, at.J_ARRAY] = trace.array
    jobs[:, at.J_FIRST] = np.arange(len(trace)) * room
    jobs[:, at.J_COUNT] = inputs.rows.why == 0
    jobs[:, [at.J_CHOSEN, at.J_CHILD, at.J_SIBLING]] = -1
    return jobs


def _options(inputs: Inputs, room: int) -> tuple[Ints, Floats, Ints]:
    rows, jobs = inputs.rows, len(inputs.trace)
    own = np.arange(jobs) * room
    options = np.zeros((jobs * room, at.OPTION_COLUMNS), np.int64)
    spans = np.zeros((jobs * room, at.SPAN_COLUMNS))
    need = np.zeros((jobs * room, at.RESOURCES), np.int64)
    options[:, at.O_JOB] = np.repeat(np.arange(jobs), room)
    options[own, at.O_PART] = np.maximum(rows.part, 0)
    options[own, at.O_UNITS] = rows.units
    options[:, [at.O_AFTER_ME, at.O_BEFORE_ME]] = -1
    need[own] = rows.need
    for column, values in ((at.S_RUN, rows.run), (at.S_PLAN, rows.plan), (at.S_LIMIT, rows.limit)):
        spans[own, column] = values
    spans[:, at.S_RESERVED] = np.inf
    return options, spans, need


def _parts(members: list[Ints], most: Ints) -> Ints:
    parts = np.zeros((len(members) + 1, at.PART_COLUMNS), np.int64)
    parts[:, [at.P_HEAD, at.P_TAIL, at.P_FRESH]] = -1
    parts[1:, at.P_AT] = np.cumsum([len(rows) for rows in members])
    parts[1:, at.P_RUN_AT] = np.cumsum(most)
    return parts


def _arrays(trace: Trace) -> Ints:
    count = int(trace.array.max(initial=-1)) + 1
    arrays = np.full((count, 4), -1, np.int64)
    arrays[:, at.A_LIMIT] = [trace.array_limits.get(a, len(trace)) for a in range(count)]
    arrays[:, at.A_LIVE] = 0
    return arrays


def _most_running(units: Units, jobs: int) -> Ints:
    """Return [partitions] an upper bound on running jobs, since each holds at least a core or a
    GPU.
    """
    held = [int(units.capacity[rows, :2].sum()) for rows in units.of]
    return np.minimum(np.array(held, np.int64) + 1, max(jobs, 1))


def _events(most: Ints, jobs: int, cluster: Cluster) -> int:
    # A run has at most one END and one EXCEEDED event.
    return int(2 * min(int(most.sum()), jobs) + 2 * site_claims(cluster) + 8)


def site_claims(cluster: Cluster) -> int:
    """Return the number of claims for reservations, which precede jobs' claims."""
    return sum(len(reservation.nodes) for reservation in cluster.reservations)


def _site_claims(cluster: Cluster, units: Units) -> list[tuple[int, float, float]]:
    """Return (node, begin, end) of each reserved node."""
    return [
        (units.first[reservation.kind] + node, reservation.begin_s, reservation.end_s)
        for reservation in cluster.reservations
        for node in reservation.nodes
    ]


def _write_site(state: State, at_claim: int, site: list[tuple[int, float, float]]) -> None:
    for k, (unit, begin, end) in enumerate(site, at_claim):
        state.claims[k, at.C_ALLOC] = unit
        claim(state, k, begin, end)
        push(state, end, at.OPENS)


def _configure(state: State, settings: Settings, *, pooled: bool) -> None:
    state.counters[at.BACKFILL] = _MODES[settings.backfill]
    state.counters[at.POOLED] = int(pooled)
    state.counters[at.QUEUES] = len(state.part_values) if pooled else 1
    begin = float(state.moments[0, at.T_SUBMIT]) if len(state.jobs) else 0.0
    state.clock[at.NOW], state.clock[at.PASS_AT] = begin, -np.inf
    state.clock[at.CYCLE], state.clock[at.BACKFILL_EVERY] = settings.cycle_s, settings.backfill_s
    state.clock[at.RESOLUTION] = settings.resolution_s
    state.part_values[:, at.V_BACKFILL] = -np.inf
    state.counters[at.WHOLE] = settings.backfill is Backfill.REPLANNED
