"""The state of a replay: arrays, so that compiled and plain Python share them.

Columns of one kind of row share an array, and stand there in the places named below: numba takes
minutes to compile functions with some ninety arguments.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from berth.policies.replay.trace import Floats, Ints

RESOURCES: Final = 3
"""Cores, GPUs, memory in MiB."""

# Places in ``counters``.
NEXT: Final = 0
"""The next job to be submitted."""
HEAP: Final = 1
"""Events that are due."""
BACKFILL: Final = 2
"""0: FCFS, 1: EASY, 2: conservative, 3: replanned."""
POOLED: Final = 3
REQUEUE: Final = 4
MULTIFACTOR: Final = 5
PENDING: Final = 6
"""1: waiting jobs must be looked at before anything else happens."""
QUEUES: Final = 7
"""How many queues: one for each pool, or one for all nodes."""

WHOLE: Final = 8
"""Reservations of a replanned backfill hold all of a pool."""
COUNTERS: Final = 9

# Places in ``clock``.
NOW: Final = 0
RANKED: Final = 1
"""Time of the last computation of priorities."""
CHARGED: Final = 2
"""Time until which usage is counted."""
AGE: Final = 3
MAX_AGE: Final = 4
FAIR: Final = 5
HALF_LIFE: Final = 6
SIZE: Final = 7
PARTITION: Final = 8
PERIOD: Final = 9
CYCLE: Final = 10
"""Passes begin at whole multiples of it; 0: at once."""
PASS_AT: Final = 11
"""Time at which the next pass begins, where one is pending."""
BACKFILL_EVERY: Final = 12
RESOLUTION: Final = 13
UNTIL: Final = 14
"""The replay pauses then, before anything later happens; infinite: it does not."""
CLOCK: Final = 15

# Values of ``status``.
FUTURE: Final = 0
HELD: Final = 1
QUEUED: Final = 2
RUNNING: Final = 3
ENDED: Final = 4
LOST: Final = 5
REFUSED: Final = 6

# Kinds of events; a code is KINDS * what + kind.
KINDS: Final = 5
END: Final = 0
EXCEEDED: Final = 1
"""A job runs longer than planned."""
DOWN: Final = 2
UP: Final = 3
OPENS: Final = 4
"""A reservation of the site ends."""


# Columns of ``jobs``.
J_USER: Final = 0
J_AFTER: Final = 1
J_ARRAY: Final = 2
J_FIRST: Final = 3
"""Its first option."""
J_COUNT: Final = 4
"""The number of its options."""
J_STATUS: Final = 5
J_CHOSEN: Final = 6
"""Option that it runs or ran by."""
J_KILLED: Final = 7
J_REQUEUES: Final = 8
J_CHILD: Final = 9
"""First job that waits for this one."""
J_SIBLING: Final = 10
"""Next job that waits for the same, or next held task of an array."""
JOB_COLUMNS: Final = 11

# Columns of ``moments``: of jobs.
T_SUBMIT: Final = 0
T_ELIGIBLE: Final = 1
T_START: Final = 2
T_END: Final = 3
MOMENT_COLUMNS: Final = 4

# Columns of ``options``.
O_JOB: Final = 0
O_PART: Final = 1
O_UNITS: Final = 2
"""Nodes; 1 in pools."""
O_AFTER_ME: Final = 3
O_BEFORE_ME: Final = 4
O_QUEUED: Final = 5
O_ALLOC_AT: Final = 6
"""Its first claim."""
O_PLACE: Final = 7
"""Its place among all that a conservative backfill has looked at in its pool, the last time."""
OPTION_COLUMNS: Final = 8

# Columns of ``spans``: of options.
S_RUN: Final = 0
S_PLAN: Final = 1
S_LIMIT: Final = 2
S_PLAN_END: Final = 3
S_DUE: Final = 4
"""Time at which it will really end."""
S_RESERVED: Final = 5
"""Start of its reservation; infinite: none."""
S_PRIORITY: Final = 6
SPAN_COLUMNS: Final = 7

# Columns of ``parts``: of partitions, or of their queues. The last row has P_AT only.
P_HEAD: Final = 0
P_TAIL: Final = 1
P_WAITING: Final = 2
P_FRESH: Final = 3
"""First of the jobs that came since the last pass; -1: none."""
P_DIRTY: Final = 4
"""Something ended: all waiting jobs must be looked at."""
P_DELAYED: Final = 5
"""Estimates were exceeded or a node broke: reservations must be made anew."""
P_RUN_AT: Final = 6
P_RUN_COUNT: Final = 7
P_AT: Final = 8
"""Its first row in ``part_units``."""
P_BLOCKED: Final = 9
"""1 on nodes: a job ahead waits for this partition."""
P_SEG_COUNT: Final = 10
P_HOLE_COUNT: Final = 11
P_TRIED: Final = 12
"""Rows of ``tried`` that count in this pass."""
P_HOLE_OLD: Final = 13
"""The number of its holes that were there before this pass."""
P_PLACES: Final = 14
"""Jobs that a conservative backfill has looked at."""
PART_COLUMNS: Final = 15

# Columns of ``part_values``.
V_WAKE: Final = 0
"""Time at which the next reservation begins."""
V_SHADOW: Final = 1
"""Time at which the first waiting job can start."""
V_PRIORITY: Final = 2
V_BACKFILL: Final = 3
"""Time before which no backfill is made."""
VALUE_COLUMNS: Final = 4

# Columns of ``nodes``.
N_BLOCKED: Final = 0
"""Kept for a job ahead, FCFS on nodes."""
N_HEAD: Final = 1
"""First claim; -1: none."""

# Columns of ``claims`` and ``claim_times``.
C_ALLOC: Final = 0
"""The node."""
C_OWNER: Final = 1
"""The option; -1: nobody, all of the node is claimed."""
C_NEXT: Final = 2
C_BEFORE: Final = 3
CLAIM_COLUMNS: Final = 4
D_BEGIN: Final = 0
D_END: Final = 1

# Columns of ``tried`` (behind the resources) and ``tried_spans``.
R_UNITS: Final = RESOURCES
R_HOLE: Final = RESOURCES + 1
"""First of the resources of holes that appeared since: the most that is free in one."""
TRIED_COLUMNS: Final = 2 * RESOURCES + 1
E_PLAN: Final = 0
E_LIMIT: Final = 1
E_HOLE: Final = 2
"""Time at which the first of these holes begins."""
SPANS_TRIED: Final = 3

# Columns of ``failures``, ``arrays``, ``users`` and ``hole_times``.
F_CLAIM: Final = 0
F_UNIT: Final = 1
A_LIMIT: Final = 0
A_LIVE: Final = 1
A_HEAD: Final = 2
A_TAIL: Final = 3
U_USAGE: Final = 0
U_SHARES: Final = 1
H_BEGIN: Final = 0
H_END: Final = 1
H_PLACE: Final = 2
"""Jobs whose place is higher were looked at when it was there; infinite: none were."""
HOLE_COLUMNS: Final = 3


class State(NamedTuple):
    """Units are nodes or pools; an option is a partition that a job was submitted to."""

    counters: Ints
    clock: Floats
    jobs: Ints
    """[jobs][J_]"""
    moments: Floats
    """[jobs][T_]"""
    options: Ints
    """[options][O_]"""
    need: Ints
    """[options][resources] on each unit."""
    spans: Floats
    """[options][S_]"""
    parts: Ints
    """[partitions + 1][P_]"""
    part_values: Floats
    """[partitions][V_]"""
    extra: Ints
    """[partitions][resources] left beside the first waiting job when it can start."""
    run_options: Ints
    """Running options by planned end, in each partition's range."""
    part_units: Ints
    """Units of the partitions, one after the other."""
    capacity: Ints
    """[units][resources]"""
    free: Ints
    """[units][resources]"""
    nodes: Ints
    """[units][N_]"""
    claims: Ints
    """[claims][C_]: of every option as many as it takes nodes. Those of the site's reservations
    and failures have no owner."""
    claim_times: Floats
    """[claims][D_]"""
    tried: Ints
    """[partitions][rows][R_] what an option that found no room now asks of each node, and nodes:
    one that asks no less and runs no shorter finds none, too."""
    tried_spans: Floats
    """[partitions][rows][E_]; 0: however short it is. In a pool E_LIMIT is the reservation that a
    job has and keeps."""
    times: Floats
    """[claims + 1] room for the moments at which a reservation may begin."""
    seg_time: Floats
    """[partitions][segments] profiles of pools: when each segment begins."""
    seg_free: Ints
    """[partitions][segments][resources]"""
    hole_times: Floats
    """[partitions][holes][H_]"""
    hole_free: Ints
    """[partitions][holes][resources]"""
    heap_time: Floats
    heap_code: Ints
    failures: Ints
    """[failures][F_]"""
    fail_end: Floats
    arrays: Ints
    """[arrays][A_]"""
    users: Floats
    """[users][U_]"""


def options_of(jobs: Ints, i: int) -> range:
    """Return the options of a job."""
    return range(jobs[i, J_FIRST], jobs[i, J_FIRST] + jobs[i, J_COUNT])


def claims_of(options: Ints, o: int) -> range:
    """Return the claims of an option, one for each node that it takes."""
    return range(options[o, O_ALLOC_AT], options[o, O_ALLOC_AT] + options[o, O_UNITS])


def running_of(parts: Ints, p: int) -> range:
    """Return the places in ``run_options`` of what runs in a partition."""
    return range(parts[p, P_RUN_AT], parts[p, P_RUN_AT] + parts[p, P_RUN_COUNT])


def units_of(parts: Ints, p: int) -> range:
    """Return the places in ``part_units`` of a partition's nodes, or of its pool."""
    return range(parts[p, P_AT], parts[p + 1, P_AT])
