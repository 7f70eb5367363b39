"""Decisions of jobs whose stamp another tool has written over.

jobstats, for one, writes its ``JS1:`` summary over AdminComment when a job ends, and nothing but
the stamp there tells which decision was the job's. Slurm's own record of who submitted when does,
where only one decision and only one such job fit: of two that fit, neither is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from berth.plugin.scheduler import Outcome
from berth.plugin.store.records import DecisionRecord, OutcomeRecord
from berth.plugin.store.store import Store

BEFORE_S = 2.0
"""A decision is at most so much older than its job: the filter's deadline, and whole seconds."""
AFTER_S = 1.0
"""Slurm cuts the second in which a job was submitted off."""


def found_again(
    outcomes: Sequence[Outcome], store: Store, scheduler: str
) -> dict[str, DecisionRecord]:
    """By job: its decision, where it lost the stamp and no other decision or job fits."""
    lost = [o for o in outcomes if o.stamp_lost and o.user and o.submit_s is not None]
    near = {o.job_id: _near(o, o.submit_s or 0.0, store, scheduler) for o in lost}
    ended = store.outcomes.of_decisions({d.id for found in near.values() for d in found})
    others = {outcome.decision for outcome in outcomes}
    free = {
        job: [d for d in found if d.id not in others and _is_free(ended.get(d.id, ()), job)]
        for job, found in near.items()
    }
    wanted = Counter(decision.id for found in free.values() for decision in found)
    return {
        job: found[0] for job, found in free.items() if len(found) == 1 and wanted[found[0].id] == 1
    }


def _is_free(stored: Sequence[OutcomeRecord], job: str) -> bool:
    return all(outcome.job_id == job for outcome in stored)


def _near(outcome: Outcome, submit_s: float, store: Store, scheduler: str) -> list[DecisionRecord]:
    found = store.decisions.of_user(outcome.user, submit_s - BEFORE_S, submit_s + AFTER_S)
    return [decision for decision in found if decision.scheduler == scheduler]
