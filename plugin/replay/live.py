"""Live replays for a site: what is known of the jobs' run times, and figures of the next hours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from berth.plugin.replay.expected import decisions_of
from berth.plugin.replay.present import PresentQueue
from berth.plugin.scheduler import PresentJob
from berth.plugin.store import DecisionRecord, Store
from berth.plugin.users.client import RemoteStore
from berth.policies.replay import Settings, Trace
from berth.policies.replay.columns import Floats
from berth.policies.replay.deciding import Decided
from berth.policies.replay.live import SAMPLES, Foreseen, Times, foresee
from berth.policies.replay.predicted import Columns
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate

USUAL = (0.001, 0.10, 1.0)
"""5, 50 and 95 % of the part of their limit that jobs take, where no past jobs are known (RICC)."""
FEW = 10
"""Past jobs that are too few to speak for a user."""
HOUR_S = 3_600.0
HORIZONS_H = (1, 4, 24)
_WORK = 30_000
"""Jobs times draws that take some seconds uncompiled."""
_FEWEST = 8


class Known(NamedTuple):
    """What is predicted of the jobs, and where from."""

    times: Times
    elsewhere: Mapping[str, Floats]
    """By platform [jobs]: the middle; NaN: nothing is predicted."""
    predicted: int
    """Jobs with a prediction of Berth's; the others by the parts of limits that jobs took."""


def known_times(
    present: PresentQueue, store: Store | RemoteStore | None, candidates: Sequence[Candidate] = ()
) -> Known:
    """Predictions that came with the jobs' decisions, else parts of limits by past jobs."""
    jobs, limits = present.jobs, present.queue.trace.limit_s
    shares = _shares(jobs, store)
    limit = np.where(np.isnan(limits), Settings().default_limit_s, limits)
    low, mid, high = (np.array([one[k] for one in shares]) * limit for k in range(3))
    elsewhere: dict[str, Floats] = {}
    queue_of = {candidate.name: candidate.queue for candidate in candidates}
    predicted = 0
    decided = decisions_of(jobs, store)
    for row, job in enumerate(jobs):
        ranked = _ranked(decided.get(job.decision or ""))
        here = [one for one in ranked if queue_of.get(one["candidate"], "") in job.queues]
        if here:
            low[row], mid[row], high[row] = here[0]["runtime_s"]
            predicted += 1
        for one in ranked:
            column = elsewhere.setdefault(one["platform"], np.full(len(jobs), np.nan))
            column[row] = one["runtime_s"][1]
    return Known(Times(low, mid, high), elsewhere, predicted)


def draws(jobs: int) -> int:
    """How many draws take some seconds."""
    return int(min(SAMPLES, max(_FEWEST, _WORK // max(jobs, 1))))


def next_hours(
    present: PresentQueue,
    settings: Settings,
    known: Known,
    *,
    policy: PolicySettings | None = None,
    candidates: Sequence[Candidate] = (),
    seed: int = 0,
) -> Foreseen:
    """The queue replayed forward; with a policy every waiting job asks it now."""
    samples = draws(len(present.jobs))
    if policy is None:
        return foresee(
            present.queue, present.cluster, settings, known.times, samples=samples, seed=seed
        )
    places = [one for one in candidates if one.name in present.partition_of]
    spread = float(np.median(known.times.high_s / np.maximum(known.times.mid_s, 1e-3)))
    listed = replace(policy, list_queues=False)

    def placing(drawn: Trace) -> Decided:
        factor = drawn.runtime_s / np.maximum(known.times.mid_s, 1e-3)
        there = {name: column * factor for name, column in known.elsewhere.items()}
        predictions = Columns(known.elsewhere, places, spread=spread)
        return Decided(
            places, present.partition_of, listed, predictions,
            trace=replace(drawn, runtime_on=there), cluster=present.cluster,
        )  # fmt: skip

    return foresee(
        present.queue, present.cluster, settings, known.times, samples=samples, seed=seed,
        placing=placing,
    )  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """One number over the draws: middle and 90 % interval."""

    low: float
    mid: float
    high: float


def figures(found: Foreseen, present: PresentQueue) -> dict[str, Figure]:
    """Of the jobs that wait now: seconds from now, and jobs."""
    now_s, first = present.queue.now_s, present.queue.running
    rows: dict[str, list[float]] = {}
    for one in found.replays:
        start = one.start_s[first:] - now_s
        began = start[np.isfinite(start)]
        rows.setdefault("mean_start_s", []).append(float(began.mean()) if len(began) else 0.0)
        rows.setdefault("last_start_s", []).append(float(began.max(initial=0.0)))
        for hours in HORIZONS_H:
            count = float(np.sum(began <= hours * HOUR_S))
            rows.setdefault(f"started_in_{hours}_h", []).append(count)
        moved = float(np.sum(one.moved[first:]))
        rows.setdefault("moved", []).append(moved)
    return {
        name: Figure(*(float(v) for v in np.percentile(values, (5, 50, 95))))
        for name, values in rows.items()
    }


def _ranked(record: DecisionRecord | None) -> list[Mapping[str, Any]]:
    """What was predicted where, the chosen place first."""
    if record is None:
        return []
    return [row for row in json.loads(record.ranked) if row.get("runtime_s")]


def _shares(
    jobs: Sequence[PresentJob], store: Store | RemoteStore | None
) -> list[tuple[float, float, float]]:
    """[jobs] low, middle and high part of the limit that such jobs take."""
    found: dict[str, tuple[float, float, float]] = {}
    for user in {job.user for job in jobs}:
        taken = []
        if isinstance(store, Store):
            taken = [
                past.elapsed_s / past.time_limit_s
                for past in store.past_jobs.of_users(user)
                if past.time_limit_s
            ]
        if len(taken) < FEW:
            found[user] = USUAL
        else:
            low, mid, high = np.clip(np.percentile(taken[-1_000:], (5, 50, 95)), 1e-4, 1.0)
            found[user] = (float(low), float(mid), float(high))
    return [found[job.user] for job in jobs]
