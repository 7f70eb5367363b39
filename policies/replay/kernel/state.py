"""The state of a replay as arrays, which compiled and plain Python share.

Attributes of the same kind of row are columns of one array, at the indices named below, because
numba takes minutes to compile functions with some ninety arguments.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.policies.replay.trace import Floats, Ints

RESOURCES: Final = 3
"""Cores, GPUs, memory in MiB."""

# Indices into ``counters``.
NEXT: Final = 0
"""The next job to be submitted."""
HEAP: Final = 1
"""Number of events in the heap."""
BACKFILL: Final = 2
"""0: FCFS, 1: EASY, 2: replanned."""
POOLED: Final = 3
PENDING: Final = 4
"""1: a pass over the waiting jobs is due, at ``PASS_AT``."""
QUEUES: Final = 5
"""Number of queues: one for each pool, or one for all nodes."""
WHOLE: Final = 6
"""1: reservations hold whole nodes."""
COUNTERS: Final = 7

# Indices into ``clock``.
NOW: Final = 0
CYCLE: Final = 1
"""Passes begin at whole multiples of this many seconds; 0: at every event."""
PASS_AT: Final = 2
"""Time at which the next pass begins, where one is pending."""
BACKFILL_EVERY: Final = 3
RESOLUTION: Final = 4
CLOCK: Final = 5

# Values of ``status``.
FUTURE: Final = 0
HELD: Final = 1
QUEUED: Final = 2
RUNNING: Final = 3
ENDED: Final = 4
REFUSED: Final = 5

# Kinds of events; a code is KINDS * what + kind.
KINDS: Final = 3
END: Final = 0
EXCEEDED: Final = 1
"""A running job reaches its planned end."""
OPENS: Final = 2
"""A site reservation ends."""


# Columns of ``jobs``.
J_AFTER: Final = 0
J_ARRAY: Final = 1
J_FIRST: Final = 2
"""Index of the job's first option."""
J_COUNT: Final = 3
"""Number of the job's options."""
J_STATUS: Final = 4
J_CHOSEN: Final = 5
"""Option by which the job runs or ran; -1: it has not started."""
J_KILLED: Final = 6
J_CHILD: Final = 7
"""First of the jobs that depend on this job."""
J_SIBLING: Final = 8
"""Next job with the same dependency, or next held task of the array."""
JOB_COLUMNS: Final = 9

# Columns of ``moments`` (rows: jobs).
T_SUBMIT: Final = 0
T_ELIGIBLE: Final = 1
T_START: Final = 2
T_END: Final = 3
MOMENT_COLUMNS: Final = 4

# Columns of ``options``.
O_JOB: Final = 0
O_PART: Final = 1
O_UNITS: Final = 2
"""Number of nodes; 1 in pools."""
O_AFTER_ME: Final = 3
O_BEFORE_ME: Final = 4
O_QUEUED: Final = 5
O_ALLOC_AT: Final = 6
"""Index of the option's first claim."""
OPTION_COLUMNS: Final = 7

# Columns of ``spans`` (rows: options).
S_RUN: Final = 0
S_PLAN: Final = 1
S_LIMIT: Final = 2
S_PLAN_END: Final = 3
S_DUE: Final = 4
"""Time at which the running job will end."""
S_RESERVED: Final = 5
"""Start of the option's reservation; infinite: none."""
SPAN_COLUMNS: Final = 6

# Columns of ``parts`` (rows: partitions or their queues). The last row has P_AT only.
P_HEAD: Final = 0
P_TAIL: Final = 1
P_WAITING: Final = 2
P_FRESH: Final = 3
"""First option that was queued since the last pass; -1: none."""
P_DIRTY: Final = 4
"""1: all waiting jobs must be examined, for example because a job ended."""
P_RUN_AT: Final = 5
P_RUN_COUNT: Final = 6
P_AT: Final = 7
"""Index of the partition's first unit in ``part_units``."""
P_BLOCKED: Final = 8
"""1: a job further ahead waits for this partition's nodes (unused in pools)."""
P_TRIED: Final = 9
"""Number of valid rows of ``tried`` in this pass."""
PART_COLUMNS: Final = 10

# Columns of ``part_values``.
V_WAKE: Final = 0
"""Time at which the next reservation begins."""
V_SHADOW: Final = 1
"""Time at which the first waiting job can start."""
V_BACKFILL: Final = 2
"""Time before which no replanned backfill pass is made."""
VALUE_COLUMNS: Final = 3

# Columns of ``nodes``.
N_BLOCKED: Final = 0
"""1: kept free for a job further ahead (FCFS on nodes)."""
N_HEAD: Final = 1
"""First claim in the node's list; -1: none."""

# Columns of ``claims`` and ``claim_times``.
C_ALLOC: Final = 0
"""Index of the claimed node."""
C_OWNER: Final = 1
"""Option that holds the claim; -1: none, the whole node is claimed."""
C_NEXT: Final = 2
C_BEFORE: Final = 3
CLAIM_COLUMNS: Final = 4
D_BEGIN: Final = 0
D_END: Final = 1

# Columns of ``tried`` (after the resources) and ``tried_spans``.
R_UNITS: Final = RESOURCES
TRIED_COLUMNS: Final = RESOURCES + 1
E_PLAN: Final = 0
E_LIMIT: Final = 1
SPANS_TRIED: Final = 2

# Columns of ``arrays``.
A_LIMIT: Final = 0
A_LIVE: Final = 1
A_HEAD: Final = 2
A_TAIL: Final = 3


class State(NamedTuple):
    """All arrays of a replay; units are nodes or pools, an option is a job in one partition."""

    counters: Ints
    clock: Floats
    jobs: Ints
    """[jobs][J_]"""
    moments: Floats
    """[jobs][T_]"""
    options: Ints
    """[options][O_]"""
    need: Ints
    """[options][resources] needed on each unit."""
    spans: Floats
    """[options][S_]"""
    parts: Ints
    """[partitions + 1][P_]"""
    part_values: Floats
    """[partitions][V_]"""
    extra: Ints
    """[partitions][resources] free at the shadow time beside the first waiting job (EASY)."""
    run_options: Ints
    """Running options, sorted by planned end within each partition's range."""
    part_units: Ints
    """Units of the partitions, concatenated."""
    capacity: Ints
    """[units][resources] in all."""
    free: Ints
    """[units][resources] free now."""
    nodes: Ints
    """[units][N_]"""
    claims: Ints
    """[claims][C_]: each option has one for each of its nodes. Claims of site reservations
    have no owner."""
    claim_times: Floats
    """[claims][D_]"""
    tried: Ints
    """[partitions][rows][R_] need per node and number of nodes of options that found no room now.
    An option that needs at least as much for at least as long finds none either."""
    tried_spans: Floats
    """[partitions][rows][E_] times of these options; 0: no room for any length."""
    times: Floats
    """[claims + 1] work array for the moments at which a reservation may begin."""
    heap_time: Floats
    heap_code: Ints
    arrays: Ints
    """[arrays][A_]"""


def options_of(jobs: Ints, i: int) -> range:
    """Return the indices of a job's options."""
    return range(jobs[i, J_FIRST], jobs[i, J_FIRST] + jobs[i, J_COUNT])


def claims_of(options: Ints, o: int) -> range:
    """Return the indices of an option's claims, one for each of its nodes."""
    return range(options[o, O_ALLOC_AT], options[o, O_ALLOC_AT] + options[o, O_UNITS])


def units_of(parts: Ints, p: int) -> range:
    """Return the indices in ``part_units`` of a partition's nodes, or of its pool."""
    return range(parts[p, P_AT], parts[p + 1, P_AT])
