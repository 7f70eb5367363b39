"""The arrays of a replay before it begins."""

from __future__ import annotations

import numpy as np

from berth.policies.replay.cluster import Cluster
from berth.policies.replay.columns import Floats, Ints
from berth.policies.replay.kernel import state as at
from berth.policies.replay.kernel.claims import claim
from berth.policies.replay.kernel.heap import push
from berth.policies.replay.kernel.state import State
from berth.policies.replay.options import Inputs, Units
from berth.policies.replay.settings import Backfill, Settings
from berth.policies.replay.trace import Trace

_MODES = {Backfill.FCFS: 0, Backfill.EASY: 1, Backfill.CONSERVATIVE: 2, Backfill.REPLANNED: 3}
_PROFILED = (Backfill.CONSERVATIVE, Backfill.REPLANNED)
_HOLES = 32
_SEGMENTS = 64
_TRIED = 8


def prepare(given: Inputs, room: int | None = None) -> State:
    """Each job's own option is written; ``room``: how many a placement may write for a job."""
    trace, cluster, settings, units = given.trace, given.cluster, given.settings, given.units
    placed, room = room is not None, room or 1
    jobs, parts, pooled = len(trace), len(cluster.partitions), cluster.pooled
    members = [np.asarray(one, np.int64) for one in units.of]
    most = _most_running(units, jobs)
    options_table, spans, need = _options(given, room)
    size = 0 if cluster.pooled or placed else int(options_table[:, at.O_UNITS].sum())
    if size:
        held = options_table[:, at.O_UNITS]
        options_table[:, at.O_ALLOC_AT] = np.cumsum(held) - held
    claims = max(size + site_claims(cluster), 1)
    wide = _SEGMENTS if pooled and settings.backfill in _PROFILED else 1
    events = _events(most, jobs, cluster)
    state = State(
        counters=np.zeros(at.COUNTERS, np.int64),
        clock=np.zeros(at.CLOCK),
        jobs=_jobs(given, room),
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
        seg_time=np.zeros((parts, wide)),
        seg_free=np.zeros((parts, wide, at.RESOURCES), np.int64),
        hole_times=np.zeros((parts, _HOLES, at.HOLE_COLUMNS)),
        hole_free=np.zeros((parts, _HOLES, at.RESOURCES), np.int64),
        heap_time=np.zeros(events),
        heap_code=np.zeros(events, np.int64),
        failures=np.zeros((len(cluster.failures), 2), np.int64),
        fail_end=np.zeros(len(cluster.failures)),
        arrays=_arrays(trace),
        users=_users(trace),
    )
    state.moments[:, at.T_SUBMIT] = trace.submit_s
    state.part_values[:, at.V_PRIORITY] = [part.priority for part in cluster.partitions]
    state.nodes[:, at.N_HEAD] = -1
    state.nodes[:, at.N_BLOCKED] = 0
    if size:
        state.claims[:size, at.C_OWNER] = np.repeat(
            np.arange(len(options_table)), options_table[:, at.O_UNITS]
        )
    if pooled and jobs:
        state.seg_free[:, 0] = units.capacity[np.array([one[0] for one in members])]
        state.seg_time[:, 0] = trace.submit_s[0]
    _configure(state, settings, pooled=pooled)
    _write_site(state, cluster, size, _site_claims(cluster, units))
    return state


def _jobs(given: Inputs, room: int) -> Ints:
    trace = given.trace
    found = np.zeros((len(trace), at.JOB_COLUMNS), np.int64)
    found[:, at.J_USER] = trace.user
    found[:, at.J_AFTER] = trace.after
    found[:, at.J_ARRAY] = trace.array
    found[:, at.J_FIRST] = np.arange(len(trace)) * room
    found[:, at.J_COUNT] = given.rows.why == 0
    found[:, [at.J_CHOSEN, at.J_CHILD, at.J_SIBLING]] = -1
    return found


def _options(given: Inputs, room: int) -> tuple[Ints, Floats, Ints]:
    rows, jobs = given.rows, len(given.trace)
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
    found = np.zeros((len(members) + 1, at.PART_COLUMNS), np.int64)
    found[:, [at.P_HEAD, at.P_TAIL, at.P_FRESH]] = -1
    found[1:, at.P_AT] = np.cumsum([len(one) for one in members])
    found[1:, at.P_RUN_AT] = np.cumsum(most)
    found[:, at.P_SEG_COUNT] = 1
    return found


def _arrays(trace: Trace) -> Ints:
    count = int(trace.array.max(initial=-1)) + 1
    found = np.full((count, 4), -1, np.int64)
    found[:, at.A_LIMIT] = [trace.array_limits.get(a, len(trace)) for a in range(count)]
    found[:, at.A_LIVE] = 0
    return found


def _users(trace: Trace) -> Floats:
    """An equal share for each user that has jobs."""
    found = np.zeros((max(int(trace.user.max(initial=0)) + 1, 1), 2))
    found[:, at.U_SHARES] = 1.0 / len(found)
    return found


def _most_running(units: Units, jobs: int) -> Ints:
    """[partitions] jobs that can run at once: each holds a core or a GPU."""
    held = [int(units.capacity[one, :2].sum()) for one in units.of]
    return np.minimum(np.array(held, np.int64) + 1, max(jobs, 1))


def _events(most: Ints, jobs: int, cluster: Cluster) -> int:
    # A run has at most one end and one exceeded plan; those that a node interrupted leave theirs.
    on_nodes = (cluster.kind(one.kind) for one in cluster.failures)
    again = 2 * sum(kind.cores + kind.gpus for kind in on_nodes)
    return int(2 * min(int(most.sum()), jobs) + again + 2 * site_claims(cluster) + 8)


def site_claims(cluster: Cluster) -> int:
    """Claims of reservations, failures and slices that do not exist, before those of jobs."""
    held = sum(len(one.nodes) for one in cluster.reservations) + len(cluster.failures)
    return held + sum(gpus.rows(p) for gpus in cluster.sliced for p in gpus.profiles)


def _site_claims(cluster: Cluster, units: Units) -> list[tuple[int, float, float]]:
    """(node, begin, end) of reservations, then of failures."""
    held = [
        (units.first[one.kind] + node, one.begin_s, one.end_s)
        for one in cluster.reservations
        for node in one.nodes
    ]
    return held + [(units.first[f.kind] + f.node, f.begin_s, f.end_s) for f in cluster.failures]


def _write_site(
    state: State,
    cluster: Cluster,
    at_claim: int,
    site: list[tuple[int, float, float]],
) -> None:
    reserved = len(site) - len(cluster.failures)
    for k, (unit, begin, end) in enumerate(site, at_claim):
        state.claims[k, at.C_ALLOC] = unit
        f = k - at_claim - reserved
        if f < 0:
            claim(state, k, begin, end)
            push(state, end, at.OPENS)
        else:
            state.failures[f, at.F_CLAIM], state.failures[f, at.F_UNIT] = k, unit
            state.fail_end[f] = end
            push(state, begin, at.KINDS * f + at.DOWN)


def _configure(state: State, settings: Settings, *, pooled: bool) -> None:
    state.counters[at.BACKFILL] = _MODES[settings.backfill]
    state.counters[at.POOLED] = int(pooled)
    state.counters[at.REQUEUE] = int(settings.requeue_failed)
    state.counters[at.QUEUES] = len(state.part_values) if pooled else 1
    begin = float(state.moments[0, at.T_SUBMIT]) if len(state.jobs) else 0.0
    state.clock[at.NOW] = state.clock[at.CHARGED] = begin
    state.clock[at.RANKED] = state.clock[at.PASS_AT] = -np.inf
    state.clock[at.CYCLE], state.clock[at.BACKFILL_EVERY] = settings.cycle_s, settings.backfill_s
    state.clock[at.RESOLUTION], state.clock[at.UNTIL] = settings.resolution_s, np.inf
    state.part_values[:, at.V_BACKFILL] = -np.inf
    state.counters[at.WHOLE] = int(settings.whole_pools)
    weights = settings.priority
    if weights is not None:
        state.counters[at.MULTIFACTOR] = 1
        state.clock[at.AGE : at.PERIOD + 1] = (
            weights.age, weights.max_age_s, weights.fair_share, weights.half_life_s,
            weights.size, weights.partition, weights.period_s,
        )  # fmt: skip
