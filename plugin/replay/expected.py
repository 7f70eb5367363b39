"""How long the jobs that run and wait are expected to take, from what the store knows of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from berth.plugin.scheduler import PresentJob
from berth.plugin.store import Store
from berth.plugin.store.records import DecisionRecord, OutcomeRecord
from berth.plugin.users.client import RemoteStore

RECENT_S = 2 * 86_400.0
"""Ended jobs so old count for their user."""
LAST = 2
"""The mean of a user's last two run times (Tsafrir, Etsion and Feitelson 2007)."""


def expected_times(jobs: Sequence[PresentJob], store: Store, now_s: float) -> dict[str, float]:
    """Run times in all by job id: predicted by its decision, else as its user's last two.

    A job that has run longer than predicted gets the upper end of the prediction. Absent: nothing
    is known. Raises StoreError.
    """
    decided = decisions_of(jobs, store)
    found: dict[str, float] = {}
    for one in jobs:
        record = None if one.decision is None else decided.get(one.decision)
        predicted = None if record is None else _predicted(record)
        if predicted is not None:
            elapsed_s = 0.0 if one.start_s is None else now_s - one.start_s
            found[one.job_id] = predicted[0] if predicted[0] > elapsed_s else predicted[1]
    if len(found) < len(jobs):
        usual = _last_of_users(store.outcomes.between(now_s - RECENT_S, now_s + 1.0))
        for one in jobs:
            if one.job_id not in found and one.user in usual:
                found[one.job_id] = usual[one.user]
    return found


def decisions_of(
    jobs: Sequence[PresentJob], store: Store | RemoteStore | None
) -> Mapping[str, DecisionRecord]:
    """By id, those of the jobs that are known. Raises StoreError."""
    wanted = {one.decision for one in jobs if one.decision is not None}
    if store is None or not wanted:
        return {}
    if isinstance(store, Store):
        return store.decisions.of_ids(wanted)
    asked = {one: store.decisions.get(one) for one in wanted}
    return {one: record for one, record in asked.items() if record is not None}


def _predicted(record: DecisionRecord) -> tuple[float, float] | None:
    """Middle and upper end at the place that was chosen; None: none was."""
    try:
        rows = json.loads(record.ranked)
        row = next(one for one in rows if one["candidate"] == record.chosen)
        _, mid, high = (float(one) for one in row["runtime_s"])
    except (ValueError, TypeError, LookupError, StopIteration):
        return None
    return mid, high


def _last_of_users(outcomes: Iterable[OutcomeRecord]) -> Mapping[str, float]:
    """Mean of each user's last run times; ``outcomes`` in order of their ends."""
    times: dict[str, list[float]] = {}
    for one in outcomes:
        if one.elapsed_s is not None and one.elapsed_s > 0:
            times[one.user] = [*times.get(one.user, []), one.elapsed_s][-LAST:]
    return {user: sum(last) / len(last) for user, last in times.items()}
