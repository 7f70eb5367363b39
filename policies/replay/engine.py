"""Replay a trace on a cluster under a scheduler's settings and, optionally, a placement policy."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from berth.pilot import progress
from berth.pilot.errors import UsageError
from berth.policies.replay.cluster import Cluster
from berth.policies.replay.compiled import Run, kernel
from berth.policies.replay.inputs import (
    LARGER,
    MIB,
    NO_PARTITION,
    NO_TIME,
    REASONS,
    SHORTEST_S,
    Inputs,
    held_beside_s,
    inputs_of,
    prepare,
    row_of,
    site_claims,
)
from berth.policies.replay.kernel import state as at
from berth.policies.replay.kernel.jobs import start, submit
from berth.policies.replay.kernel.state import State
from berth.policies.replay.placement import Option, Placer, Present
from berth.policies.replay.replayed import ReplayCounts, Replayed
from berth.policies.replay.settings import Backfill, Settings
from berth.policies.replay.trace import Flags, Ints, Trace

WORTH_COMPILING = 5_000
"""Least number of jobs for which compilation saves time."""
MOST_OPTIONS = 4
"""Most partitions that a job can be submitted to at once."""

_REPLAYED = "jobs replayed"


def replay(
    trace: Trace,
    cluster: Cluster,
    settings: Settings,
    placement: Placer | None = None,
    *,
    held: Sequence[Ints] = (),
) -> Replayed:
    """Return when and where each job runs; without a placement, jobs stay in their partitions.

    ``held``: for the first jobs of the trace, which run already, the nodes that each holds (ignored
    in pools). Raises UsageError where a placement gives an invalid option.
    """
    if settings.backfill is Backfill.REPLANNED:
        cluster = dataclasses.replace(cluster, pooled=False)  # its reservations hold nodes
    inputs = inputs_of(trace, cluster, settings)
    run = kernel(
        settings.backfill,
        pooled=cluster.pooled,
        compiled=False
        if settings.compiled is None and len(trace) < WORTH_COMPILING
        else settings.compiled,
    )
    answers = _Answers(np.zeros(len(trace), bool), trace.memory_bytes.copy())
    if placement is None:
        begun = prepare(inputs)
        state = _run_shown(run, _running(_with_used(begun), held), len(trace))
        state = state._replace(need=begun.need)
    else:
        state = _run_placed(run, inputs, placement, answers, held=held)
    return _result(inputs, state, answers)


class _Answers(NamedTuple):
    """The placement's results per job that the replay's figures need."""

    unjudged: Flags
    """[jobs] whether the placement could not judge the job."""
    memory_bytes: Ints
    """[jobs] memory requested per node, in the partition where the job was placed."""


def _run_shown(run: Run, state: State, stop: int) -> State:
    """Run the whole trace; where progress is displayed, in steps with a report after each."""
    if progress.is_shown():
        for before in range(0, stop, max(1, stop // progress.REPORTS)):
            run(state, before)
            progress.report(_REPLAYED, before, stop)
        progress.report(_REPLAYED, stop, stop)
    run(state, stop)
    return state


def _with_used(state: State) -> State:
    """Return the state without the last resources (GPUs, memory) if no job needs any.

    Searches go through all resources, so fewer resources make them faster.
    """
    used = int(np.flatnonzero(state.need.any(axis=0)).max(initial=0)) + 1
    if used == at.RESOURCES:
        return state
    return state._replace(
        **{
            name: np.ascontiguousarray(getattr(state, name)[..., :used])
            for name in ("need", "extra")
        }
    )


def _running(state: State, held: Sequence[Ints]) -> State:
    for job, units in enumerate(held):
        submit(state, job)
        state.counters[at.NEXT] = job + 1
        if state.jobs[job, at.J_STATUS] == at.REFUSED:
            continue
        o = int(state.jobs[job, at.J_FIRST])
        if not state.counters[at.POOLED]:
            begin = int(state.options[o, at.O_ALLOC_AT])
            state.claims[begin : begin + int(state.options[o, at.O_UNITS]), at.C_ALLOC] = units
        start(state, o)
    if held:
        state.parts[:, at.P_DIRTY] = 1
    return state


def _run_placed(
    run: Run,
    inputs: Inputs,
    placement: Placer,
    answers: _Answers,
    *,
    held: Sequence[Ints],
) -> State:
    units, why = inputs.units, inputs.rows.why
    room = min(MOST_OPTIONS, len(inputs.cluster.partitions))
    state = prepare(inputs, room)
    filled = site_claims(inputs.cluster)
    for job in range(0 if units.pooled else len(held)):
        state, filled = _allocate(state, job, filled)
    state = _running(state, held)
    moments = state.moments[:, at.T_SUBMIT].tolist()
    asks = [not reason or REASONS[reason] in _MAY_MOVE for reason in why.tolist()]
    longest = units.longest.tolist()
    same_at: Callable[[float], bool] = getattr(placement, "same_at", lambda _: False)
    job, every = len(held), max(1, len(moments) // progress.REPORTS)
    reported = job
    while job < len(moments):
        run(state, job)
        if job >= reported:
            progress.report(_REPLAYED, job, len(moments))
            reported = job + every
        waiting = state.parts[:-1, at.P_WAITING]
        asked = True
        while asked:
            asked = asks[job]
            if asked:
                present = Present(moments[job], state.free, waiting, units.of)
                answer = placement.place(job, present)
                answers.unjudged[job] = answer is not None and not len(answer)
                if answer:
                    answers.memory_bytes[job] = answer[0].memory_bytes
                    _write(state, job, answer[:room], inputs, longest)
            if not units.pooled:
                state, filled = _allocate(state, job, filled)
            job += 1
            asked = asked and job < len(moments) and same_at(moments[job])
    progress.report(_REPLAYED, job, len(moments))
    run(state, len(moments))
    return state


_MAY_MOVE = (LARGER, NO_TIME, NO_PARTITION)
"""Refusal reasons that a policy can avoid by placing the job in another partition."""


def _write(
    state: State, job: int, options: Sequence[Option], inputs: Inputs, longest: list[float]
) -> None:
    """Write a placement's options for a job into the state; ``longest``: as in ``Units``."""
    units, settings = inputs.units, inputs.settings
    if len(options) > 1 and len({option.partition for option in options}) != len(options):
        raise UsageError(f"the policy names a partition twice for job {job}")
    first, count, beside = int(state.jobs[job, at.J_FIRST]), 0, held_beside_s(settings)
    for option in options:
        part, run_s, plan_s, limit_s = (
            option.partition, option.runtime_s, option.planned_s, option.limit_s,
        )  # fmt: skip
        if not (run_s >= 0 and plan_s >= 0 and limit_s >= 0):
            raise UsageError(f"the policy gives job {job} a time that is not known or negative")
        count_of_units, need, fits = row_of(option, units)
        if not fits:
            continue
        o = first + count
        limit_s = min(limit_s, longest[part])
        plan_s = max(min(plan_s, limit_s), SHORTEST_S)
        options_, spans = state.options, state.spans
        options_[o, at.O_PART], options_[o, at.O_UNITS] = part, count_of_units
        state.need[o] = need
        spans[o, at.S_RUN] = run_s + beside
        spans[o, at.S_LIMIT] = limit_s + beside if settings.kill_at_limit else math.inf
        spans[o, at.S_PLAN] = plan_s if plan_s < math.inf else settings.unlimited_plan_s
        count += 1
    if count:
        state.jobs[job, at.J_COUNT] = count


def _allocate(state: State, job: int, filled: int) -> tuple[State, int]:
    """Return the state with claims for the job's options, and the number of claims now in use."""
    first = int(state.jobs[job, at.J_FIRST])
    options = range(first, first + int(state.jobs[job, at.J_COUNT]))
    wanted = filled + sum(int(state.options[o, at.O_UNITS]) for o in options)
    if wanted > len(state.claims):
        state = _more_claims(state, 2 * wanted)
    for o in options:
        state.options[o, at.O_ALLOC_AT] = filled
        begin, filled = filled, filled + int(state.options[o, at.O_UNITS])
        state.claims[begin:filled, at.C_OWNER] = o
    return state, filled


def _more_claims(state: State, size: int) -> State:
    more = size - len(state.claims)
    return state._replace(
        claims=np.concatenate([state.claims, np.full((more, at.CLAIM_COLUMNS), -1, np.int64)]),
        claim_times=np.concatenate([state.claim_times, np.zeros((more, 2))]),
        times=np.zeros(size + 1),
    )


def _result(inputs: Inputs, state: State, answers: _Answers) -> Replayed:
    trace, cluster, rows = inputs.trace, inputs.cluster, inputs.rows
    status, chosen = state.jobs[:, at.J_STATUS], state.jobs[:, at.J_CHOSEN]
    ran = chosen >= 0
    by = np.where(ran, chosen, state.jobs[:, at.J_FIRST])
    part, nodes = state.options[by, at.O_PART], state.options[by, at.O_UNITS]
    moved = ran & (rows.part != part)
    need = state.need[by] * nodes[:, None]
    refused = np.where(status == at.REFUSED, rows.why, 0)
    killed = state.jobs[:, at.J_KILLED].astype(bool)
    starved = np.zeros(len(trace), bool)
    if inputs.settings.kill_at_memory and trace.peak_bytes is not None:
        lacks = (answers.memory_bytes > 0) & (trace.peak_bytes > answers.memory_bytes)
        starved = lacks & (status == at.ENDED) & ~killed
    counts = ReplayCounts(
        read=len(trace),
        replayed=int(np.sum(refused == 0)),
        refused={
            REASONS[why]: int(np.sum(refused == why))
            for why in range(1, len(REASONS))
            if np.any(refused == why)
        },
        ended=int(np.sum(status == at.ENDED)),
        killed=int(killed.sum()),
        killed_memory=int(starved.sum()),
        never=int(np.sum((status == at.HELD) | (status == at.QUEUED))),
        moved=int(moved.sum()),
        not_judged=int(answers.unjudged.sum()),
    )
    return Replayed(
        trace=trace,
        cluster=cluster,
        settings=inputs.settings,
        start_s=state.moments[:, at.T_START] + inputs.settings.start_overhead_s,
        end_s=state.moments[:, at.T_END] - inputs.settings.end_overhead_s,
        eligible_s=state.moments[:, at.T_ELIGIBLE],
        partition=np.where(ran, part, -1),
        nodes=nodes,
        cores=need[:, 0],
        gpus=need[:, 1],
        memory_bytes=need[:, 2] * MIB,
        limit_s=state.spans[by, at.S_LIMIT] - held_beside_s(inputs.settings),
        planned_s=state.spans[by, at.S_PLAN],
        killed=killed,
        killed_memory=starved,
        moved=moved,
        not_judged=answers.unjudged,
        refused=refused,
        counts=counts,
        units=() if cluster.pooled else _nodes_of(state, chosen),
    )


def _nodes_of(state: State, chosen: Ints) -> tuple[Ints, ...]:
    begin = state.options[chosen, at.O_ALLOC_AT]
    end = np.where(chosen >= 0, begin + state.options[chosen, at.O_UNITS], begin)
    held = state.claims[:, at.C_ALLOC]
    return tuple(held[a:b].copy() for a, b in zip(begin.tolist(), end.tolist(), strict=True))
