"""Reads the outcomes of jobs that Berth placed, and stores them with the predictions.

Runs in a background thread, never while a submission waits. The decision's identifier, which Berth
wrote to the job's comment at submission, links a job to its decision. After a failed read the next
step starts where the last successful one ended, less an hour, because accounting may lag behind.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from berth.pilot.errors import SchedulerError
from berth.pilot.run import Run
from berth.plugin.history.seen_nodes import present_node_kinds
from berth.plugin.outcomes.failed_at_once import MOST_READ, REMEMBERED_S, FailedAtOnce
from berth.plugin.scheduler import EndedJobs, Scheduler
from berth.plugin.scheduler.node_kinds import NodeKinds
from berth.plugin.site.site import Site
from berth.plugin.store.records import DecisionRecord, PlacedRun
from berth.plugin.store.statements import columns_of
from berth.plugin.store.store import Store
from berth.policies.codes import PLACES, Code

log = logging.getLogger("berth.serve.outcomes")

LAG_S = 3_600.0
"""Seconds after a job's end within which accounting may report the job, or the store its
decision.
"""
WINDOW_S = 6 * 3_600.0
"""The longest period in seconds that is read in one query. A longer period is read in pieces, so
that a slow accounting database makes progress.
"""
LONGEST_S = 7 * 86_400.0
"""The longest period in seconds that the daemon reads when it starts after a long downtime."""
NODES_S = 3_600.0
"""Seconds between two readings of the nodes that tell on which candidate a job ran."""
SETTLES_S = 120.0
"""A job that ended less than this many seconds ago is read again: slurmdbd adds the user, the array
index and the memory late.
"""
_ASKED_OTHERWISE = (Code.OTHER_GRES, Code.OTHER_FEATURES)
"""Codes of candidates that the job's own request ruled out, so that the job did not run there."""
_STAMP_AGE_S = 3_600.0
_CLOCKS_S = 60.0
"""The largest expected difference in seconds between the clocks of two hosts."""
BEFORE_S = 2.0
"""The most seconds by which a decision precedes its job's submission: the filter's timeout, and
rounding to whole seconds.
"""
AFTER_S = 1.0
"""The most seconds by which a decision follows its job's submission time, which Slurm rounds down
to a second.
"""


def follow_outcomes(
    store: Store,
    site: Site,
    scheduler: Scheduler,
    failed: FailedAtOnce | None = None,
    *,
    clock: Callable[[], float] = time.time,
) -> Callable[[], None]:
    """Return a function, to be called periodically, that stores the outcomes of jobs which ended
    since its last call, and adds them to ``failed``.

    The function raises SchedulerError, ToolMissing or StoreError where outcomes cannot be read or
    stored.
    """
    kinds = NodeKinds({}, site.candidates)
    nodes_read_s: float | None = None
    known: dict[str, float] = {}
    read_until_s: float | None = None

    def step() -> None:
        nonlocal kinds, nodes_read_s, read_until_s
        now_s = clock()
        if read_until_s is None:
            read_until_s = _beginning(store, site.name, now_s)
            if failed is not None:
                stored = store.outcomes.last(now_s - REMEMBERED_S, now_s, MOST_READ)
                failed.take(stored, store.decisions)
        # A clock that was wrong for a while must not move the start into the future or years back.
        read_until_s = min(now_s, max(read_until_s, now_s - LONGEST_S))
        problem = None
        while read_until_s < now_s:
            since_s, until_s = read_until_s - LAG_S, min(now_s, read_until_s + WINDOW_S)
            for job in [job for job, end_s in known.items() if end_s < since_s]:
                del known[job]
            ended = scheduler.ended(since_s, until_s, known)
            if ended.outcomes and (nodes_read_s is None or now_s - nodes_read_s > NODES_S):
                kinds = present_node_kinds(store, site, scheduler, now_s)
                nodes_read_s = now_s
            linked = link(ended, store, site, scheduler, kinds)
            store.decisions.put_unmoved(linked.unmoved)
            store.outcomes.put(linked.records)
            if failed is not None:
                failed.take(linked.records, store.decisions)
            settled_s = until_s - SETTLES_S
            known.update({job: end_s for job, end_s in linked.done.items() if end_s < settled_s})
            read_until_s = until_s
            problem = problem or ended.problem
            if linked.records:
                log.debug("%d outcomes", len(linked.records))
        if problem is not None:
            raise SchedulerError(problem)

    return step


def _beginning(store: Store, cluster: str, now_s: float) -> float:
    """Return the Unix time up to which outcomes are stored already.

    The result is at most ``LONGEST_S`` ago, and now where no decision exists.
    """
    first_s, newest_s = store.decisions.first_s(), store.outcomes.newest_end_s(cluster)
    if first_s is None:
        return now_s
    return min(now_s, max(now_s - LONGEST_S, first_s if newest_s is None else newest_s))


_UNMOVED: Mapping[str, str] = {
    Code.UNTRANSLATED: "The job uses an option that Berth cannot translate for another place.",
    Code.SITE_RULE: "A rule of the site's own refused the job as Berth would have changed it.",
}


class Linked(NamedTuple):
    """Run records to store, the end times of all jobs that need not be read again, and the
    decisions that the filter did not carry out, as it answered."""

    records: list[PlacedRun]
    done: dict[str, float]
    unmoved: list[DecisionRecord]


def link(
    ended: EndedJobs,
    store: Store,
    site: Site,
    scheduler: Scheduler,
    kinds: NodeKinds,
) -> Linked:
    """Join outcomes with their decisions; an outcome whose decision is not stored yet is
    left out.
    """
    stamps = {outcome.decision for outcome in ended.outcomes if outcome.decision}
    decisions = store.decisions.of_ids(stamps)
    unstamped = decisions_without_stamp(ended.outcomes, store, scheduler.name)
    linked = Linked([], {}, [])
    for outcome in ended.outcomes:
        decision = decisions.get(outcome.decision or "") or unstamped.get(outcome.job_id)
        if outcome.decision and decision is None:
            continue
        if decision is not None and _is_of(decision, outcome, scheduler):
            code = ended.unmoved.get(decision.id)
            if code is not None and decision.action == "edit":
                decision = replace(decision, action="keep", code=code, reason=_UNMOVED[code])
                linked.unmoved.append(decision)
            linked.records.append(record_of(outcome, decision, site.name, kinds))
        linked.done[outcome.job_id] = outcome.end_s or 0.0
    return linked


def decisions_without_stamp(
    outcomes: Sequence[Run], store: Store, scheduler: str
) -> dict[str, DecisionRecord]:
    """Return, by job, the decisions of jobs whose comment another tool has overwritten.

    jobstats, for one, writes its ``JS1:`` summary over AdminComment when a job ends, and so
    removes Berth's decision identifier. The decision is then found by the user and the submission
    time that Slurm recorded, and only where exactly one decision and one such job match.
    """
    lost = [o for o in outcomes if o.decision == "" and o.user and o.submit_s is not None]
    near = {o.job_id: _near(o, o.submit_s or 0.0, store, scheduler) for o in lost}
    ended = store.outcomes.of_decisions({d.id for decisions in near.values() for d in decisions})
    others = {outcome.decision for outcome in outcomes}
    free = {
        outcome.job_id: [
            d
            for d in near[outcome.job_id]
            if d.id not in others and _is_free(ended.get(d.id, ()), outcome)
        ]
        for outcome in lost
    }
    wanted = Counter(decision.id for decisions in free.values() for decision in decisions)
    return {
        job: decisions[0]
        for job, decisions in free.items()
        if len(decisions) == 1 and wanted[decisions[0].id] == 1
    }


def _is_free(stored: Sequence[PlacedRun], job: Run) -> bool:
    return all(outcome.job_id in (job.job_id, job.raw_id) for outcome in stored)


def _near(outcome: Run, submit_s: float, store: Store, scheduler: str) -> list[DecisionRecord]:
    decisions = store.decisions.of_user(outcome.user, submit_s - BEFORE_S, submit_s + AFTER_S)
    return [decision for decision in decisions if decision.scheduler == scheduler]


def _is_of(decision: DecisionRecord, outcome: Run, scheduler: Scheduler) -> bool:
    """Return whether the decision belongs to this job.

    Where users can write the job's comment, they can copy another job's identifier.
    """
    if decision.scheduler != scheduler.name or decision.user not in ("", outcome.user):
        return False
    if outcome.submit_s is None:
        return True
    age_s = outcome.submit_s - decision.time_s
    return age_s > -_CLOCKS_S and (age_s < _STAMP_AGE_S or scheduler.stamps_are_private)


def record_of(outcome: Run, decision: DecisionRecord, cluster: str, kinds: NodeKinds) -> PlacedRun:
    """Return the outcome's row for the store, with the prediction for the place where the
    job ran.
    """
    queues = {candidate.name: candidate.queue for candidate in kinds.candidates}
    row = place_row(outcome.partition, decision, queues, kinds.candidates_of(outcome))
    low_s, mid_s, high_s = (row and row.get("runtime_s")) or (None, None, None)
    return PlacedRun(
        **columns_of(replace(outcome, cluster=cluster, decision=decision.id)),
        workload=decision.workload,
        bundle=decision.bundle,
        candidate=row["candidate"] if row else None,
        platform=row["platform"] if row else None,
        predicted_low_s=low_s,
        predicted_s=mid_s,
        predicted_high_s=high_s,
    )


def place_row(
    queue: str,
    decision: DecisionRecord,
    queues: Mapping[str, str],
    ran_on: frozenset[str] = frozenset(),
) -> dict[str, Any] | None:
    """Return the row of the decision's ranking for the candidate and shape in which the job ran;
    it has ``runtime_s`` where a time was predicted that could be acted on.

    None where the ranking has no such row:
    - the job ran unchanged, and the ranking is for other numbers of GPUs only (or of cores, for
      a job without GPUs);
    - the job is an array whose tasks differ in size, as predictions are for the largest task;
    - its queue has candidates on two platforms, and nothing tells which of them it ran on.

    ``ran_on``: the candidates to which all nodes of the job belong; empty: its nodes do not tell.
    """
    try:
        request, ranked = json.loads(decision.request), json.loads(decision.ranked)
        if request.get("task_sizes"):
            return None
        rows = [row for row in ranked if {"cores", "gpus"} <= row.keys()]
        chosen = next((row for row in rows if row["candidate"] == decision.chosen), None)
        as_chosen = decision.action == "edit" or (
            decision.code in PLACES and json.loads(decision.edits) == {}
        )
        if decision.action == "edit":
            if chosen is None:
                return None
            shape = _shape(chosen["cores"], chosen["gpus"])
        else:
            shape = _shape(request["tasks"] * request["cpus_per_task"], request["gpus"])
        in_queue = [
            row
            for row in ranked
            if queues.get(row["candidate"]) == queue and row.get("code") not in _ASKED_OTHERWISE
        ]
        if ran_on:
            # A queue that is no candidate's, such as auto, holds the nodes of several.
            in_queue = [row for row in in_queue or ranked if row["candidate"] in ran_on]
        fitting = [
            row for row in in_queue if row in rows and _shape(row["cores"], row["gpus"]) == shape
        ]
    except (ValueError, LookupError, TypeError):
        return None
    if as_chosen and chosen in fitting:
        return chosen
    platforms = {row.get("platform") for row in in_queue}
    return fitting[0] if fitting and len(platforms) == 1 else None


def _shape(cores: int, gpus: int) -> tuple[int, int]:
    return (0, gpus) if gpus else (cores, 0)
