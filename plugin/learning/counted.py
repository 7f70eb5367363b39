"""Decides which finished jobs learning uses, and why the others are left out."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import StrEnum
from typing import Any

from berth.plugin.store.records import DecisionInputs, PlacedRun, WorkloadRecord, is_timed
from berth.predictor.core.forecast import Forecast

CLOCKS_S = 3_600.0
"""A job's end further in the future than this (s) is taken as a wrong clock."""
SUSPENDED_S = 5.0
"""A job whose run time is shorter than the time from start to end by more than this (s) was
suspended."""
_LONGEST_S = 10 * 366 * 86_400.0


class LearningUse(StrEnum):
    """How learning uses a finished job, or why the job is left out."""

    USED = "used"
    CENSORED = "censored"
    """The job was killed by its time limit: its true run time is longer."""
    NOT_COMPLETED = "not-completed"
    """The job failed, was cancelled or ran out of memory: its run time says nothing."""
    SUSPENDED = "suspended"
    REQUEUED = "requeued"
    """The job ended more than once: a second run may have continued from a checkpoint."""
    BAD_TIMES = "bad-times"
    """The job's times are negative, reversed, absent or in the future."""
    TOO_SHORT = "too-short"
    """The run time is 0 or 1 s on a clock of whole seconds, so the true one is anything below 1
    or 2 s."""
    NO_PLACE = "no-place"
    """Berth did not compare the place with the number of cores or GPUs where the job ran."""
    AMOUNT_UNKNOWN = "amount-unknown"
    """The forecast is per step or token, and the number of them in a job is unknown."""
    OTHER_CONTENT = "other-content"
    """The workload was replaced after the job was submitted."""
    HISTORY = "history"
    """The workload is a history workload, which already contains its past jobs."""
    BY_HAND = "by-hand"
    """An admin excluded the job (`berth jobs learn --without`)."""


COUNTED = (LearningUse.USED, LearningUse.CENSORED)


def looked_at(
    outcome: PlacedRun,
    decision: DecisionInputs | None,
    workload: WorkloadRecord | None,
    forecast: Forecast | None,
    *,
    now_s: float,
) -> PlacedRun:
    """Return a finished job that has a workload, with how learning uses it.

    ``forecast``: the workload's forecast without learning; None: the workload no longer exists or
    has no forecast.
    """
    row, size = _ran_as(outcome, decision)
    use = _use(outcome, decision, workload, forecast, ranked=row is not None, now_s=now_s)
    return replace(
        outcome,
        use=use.value,
        workload_digest="" if workload is None else workload.digest,
        ranked_cores=None if row is None else row["cores"],
        ranked_gpus=None if row is None else row["gpus"],
        size=size,
        score=None,
    )


def _use(
    outcome: PlacedRun,
    decision: DecisionInputs | None,
    workload: WorkloadRecord | None,
    forecast: Forecast | None,
    *,
    ranked: bool,
    now_s: float,
) -> LearningUse:
    """Return the first reason to leave the job out, else ``USED``; ``ranked``: the decision has
    a row for the candidate where the job ran, with its cores and GPUs."""
    submitted_s = decision.time_s if decision is not None else 0.0
    checks = (
        (LearningUse.BY_HAND, outcome.use == LearningUse.BY_HAND),
        (LearningUse.NOT_COMPLETED, outcome.state not in ("completed", "timeout")),
        (LearningUse.REQUEUED, outcome.seen_end_s not in (None, outcome.end_s)),
        (LearningUse.BAD_TIMES, not _times_hold(outcome, now_s)),
        (LearningUse.TOO_SHORT, not is_timed(outcome.elapsed_s)),
        (LearningUse.SUSPENDED, _was_suspended(outcome)),
        (LearningUse.HISTORY, workload is not None and workload.kind == "history"),
        (LearningUse.AMOUNT_UNKNOWN, forecast is not None and not forecast.whole_job),
        (
            LearningUse.NO_PLACE,
            workload is None or forecast is None or not ranked or not outcome.platform,
        ),
        (LearningUse.OTHER_CONTENT, workload is not None and submitted_s < workload.created_s),
        (LearningUse.CENSORED, outcome.state == "timeout"),
    )
    return next((use for use, holds in checks if holds), LearningUse.USED)


def _times_hold(outcome: PlacedRun, now_s: float) -> bool:
    start_s, end_s, elapsed_s = outcome.start_s, outcome.end_s, outcome.elapsed_s
    if end_s is None or not 0 <= elapsed_s < _LONGEST_S:
        return False
    if end_s > now_s + CLOCKS_S or (start_s is not None and not 0 < start_s <= end_s):
        return False
    if outcome.submit_s is not None and start_s is not None and start_s < outcome.submit_s - 60:
        return False
    return start_s is None or elapsed_s <= end_s - start_s + SUSPENDED_S


def _was_suspended(outcome: PlacedRun) -> bool:
    if outcome.start_s is None or outcome.end_s is None:
        return False
    return outcome.end_s - outcome.start_s - outcome.elapsed_s > SUSPENDED_S


def _ran_as(
    outcome: PlacedRun, decision: DecisionInputs | None
) -> tuple[dict[str, Any] | None, float | None]:
    """Return the row of the decision's ranking for the candidate where the job ran, and the
    problem size; None for what is unknown."""
    if decision is None:
        return None, None
    try:
        rows = json.loads(decision.ranked)
        ranked_row = next((r for r in rows if r["candidate"] == outcome.candidate), None)
        size = json.loads(decision.request).get("size")
        if ranked_row is None or not _whole(ranked_row["cores"]) or not _whole(ranked_row["gpus"]):
            return None, None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None, None
    return ranked_row, float(size) if isinstance(size, int | float) and size > 0 else None


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10_000_000
