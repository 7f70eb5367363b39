"""Collects all that is known of one job: decision, state, outcome and expected start."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from berth.pilot.errors import BerthError, UsageError
from berth.pilot.units import format_elapsed
from berth.plugin.report.of_decision import makespan_text
from berth.plugin.report.of_ground import ground_sentences
from berth.plugin.scheduler import JobNow, all_schedulers
from berth.plugin.store import DecisionRecord, PlacedRun, Store
from berth.policies.codes import NOT_ACTED_ON

if TYPE_CHECKING:
    from berth.plugin.replay.queue_replay import Start
    from berth.plugin.users.client import RemoteStore


@dataclass(frozen=True, slots=True)
class There:
    """The prediction for the candidate that the job was sent to, or that it asked for itself."""

    runtime_s: tuple[float, float, float]
    """Low, middle and high of the predicted run time, in seconds."""
    source: str | None


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The prediction for a candidate other than the one the job was sent to."""

    place: str
    seconds: float | None
    """Predicted seconds; None: nothing was predicted, or it was not stored."""
    why_not: str | None
    """Why the candidate was ruled out; None: the job fitted."""
    is_guess: bool = False
    """Whether the prediction was too uncertain to act on."""
    makespan: str = ""
    """For an array that fitted: the makespan of all its tasks there, as text."""
    only_fits: bool = False
    """Whether the job fits there as written and nothing usable was predicted."""


@dataclass(frozen=True, slots=True)
class KnownJob:
    """All that is known of a job."""

    job: str
    now: JobNow | None
    decision: DecisionRecord | None
    outcome: PlacedRun | None
    there: There | None
    elsewhere: tuple[Elsewhere, ...]
    expected: Start | None
    """The job's start by a live replay; None: it does not wait, or no estimate is possible."""
    unexpected: str | None
    """Why there is no estimate of the start; None: there is no problem."""
    problem: str | None
    """Why the scheduler could not be queried; None: it answered."""
    ground: tuple[str, ...] = ()
    """Sentences on what the decision was based on, and what would make it better."""
    not_shown: str | None = None
    """Why a decision on the job is not shown; None: it is shown, or there is none."""


def known_job(store: Store | RemoteStore, job: str, site_file: Path | None = None) -> KnownJob:
    """Return what the store and the scheduler know of a job.

    Raises UsageError where neither knows it.
    """
    now, problem, job_ids = _now(job)
    outcome = next((o for job_id in job_ids if (o := store.outcomes.of_job(job_id))), None)
    decision, not_shown = None, None
    try:
        name = outcome.decision if outcome and outcome.decision else decision_of_job(store, job)
        decision = store.decisions.get(name)
        if decision is None:
            not_shown = _not_shown(name, others=outcome is None and not isinstance(store, Store))
    except UsageError:
        if now is None and outcome is None:
            raise
    ranked: list[dict[str, Any]] = [] if decision is None else json.loads(decision.ranked)
    is_there = decision is not None and (decision.action == "edit" or decision.edits == "{}")
    chosen = decision.chosen if decision is not None and is_there else None
    ran_at = outcome.candidate if outcome is not None and outcome.candidate else chosen
    elsewhere = tuple(_elsewhere(row) for row in ranked if row["candidate"] != ran_at)
    expected, unexpected = None, None
    if now is not None and now.state == "pending":
        from berth.plugin.replay.queue_replay import start_of  # noqa: PLC0415 - numpy

        for job_id in job_ids:
            expected, unexpected = start_of(job_id, site_file, store)
            if expected is not None:
                break
    there = _there(ranked, chosen)
    return KnownJob(
        job, now, decision, outcome, there, elsewhere, expected, unexpected, problem,
        tuple(ground_sentences(decision)), not_shown,
    )  # fmt: skip


def _not_shown(decision: str, *, others: bool) -> str:
    """Return why the decision that a job carries is not shown; ``others``: it may be on another
    user's job."""
    if others:
        return (
            f"Berth's decision {decision} on it is not yours to see: users see only the decisions "
            "on their own jobs (or it is not in the store)"
        )
    return f"Berth's decision {decision} on it is not in the store"


def decision_of_job(store: Store | RemoteStore, job: str) -> str:
    """Return the id of a job's decision, from its outcome or from its comment in the scheduler.

    Raises UsageError where the job has none.
    """
    asked = [(s, job_id) for s in all_schedulers() if (job_id := s.job_id(job)) is not None]
    for job_id in dict.fromkeys([*(job_id for _, job_id in asked), job]):
        outcome = store.outcomes.of_job(job_id)
        if outcome is not None and outcome.decision is not None:
            return outcome.decision
    if not asked:
        raise UsageError(f"{job!r} is not a job id")
    for scheduler, job_id in asked:
        stamped = scheduler.stamped(job_id)
        if stamped is not None:
            return stamped
    raise UsageError(
        f"job {job} carries no decision of Berth's",
        hint=_from_accounting(store, job)
        or "it opted out (berth:off), was submitted without Berth, or the scheduler has "
        "forgotten it",
    )


def _from_accounting(store: Store | RemoteStore, job: str) -> str:
    """Return a sentence on a past job that accounting told of; empty: it did not."""
    if not isinstance(store, Store) or (past := store.past_jobs.of_job(job)) is None:
        return ""
    from berth.plugin.history.workloads import stored_name_of  # noqa: PLC0415 - numpy

    name = stored_name_of(store, past)
    known = f"{past.user}'s {past.name or 'job'}, {past.state}, {format_elapsed(past.elapsed_s)}"
    if name is None:
        return f"it is known from accounting only ({known})"
    return f"it is known from accounting only ({known}); the next one: berth workload show {name}"


def _now(job: str) -> tuple[JobNow | None, str | None, list[str]]:
    """Return three things: the job's state from the first scheduler that knows the job, why a
    scheduler could not be queried, and the job's possible ids in the store."""
    problem, job_ids = None, [job]
    for scheduler in all_schedulers():
        job_id = scheduler.job_id(job)
        if job_id is None:
            continue
        job_ids.append(job_id)
        if not scheduler.is_here():
            continue
        try:
            now = scheduler.job_now(job_id)
        except BerthError as error:
            problem = error.message
            continue
        if now is not None:
            return now, None, list(dict.fromkeys(job_ids))
    return None, problem, list(dict.fromkeys(job_ids))


def _there(ranked: Sequence[Mapping[str, Any]], chosen: str | None) -> There | None:
    for row in ranked:
        if row["candidate"] == chosen and row.get("runtime_s"):
            low, mid, high = row["runtime_s"]
            return There((low, mid, high), row.get("source"))
    return None


def _elsewhere(row: Mapping[str, Any]) -> Elsewhere:
    runtime_s = row.get("runtime_s") or row.get("predicted_s")
    return Elsewhere(
        row["candidate"],
        runtime_s[1] if runtime_s else None,
        row.get("excluded") or None,
        row.get("code") in {code.value for code in NOT_ACTED_ON},
        makespan_text(row.get("makespan")),
        only_fits=row.get("score") is None and not row.get("excluded"),
    )
