"""Live replays for a site: the next hours of its queue, figures of them, and expected waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from berth.plugin.replay.expected import Known
from berth.plugin.replay.present import InTheirQueues, PresentQueue
from berth.policies.replay import Settings, Trace
from berth.policies.replay.deciding import Decided
from berth.policies.replay.live import SAMPLES, Foreseen, foresee, wait_table
from berth.policies.replay.predicted import Columns
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate
from berth.policies.waits import WaitTable

HOUR_S = 3_600.0
HORIZONS_H = (1, 4, 24)
_WORK = 30_000
"""Jobs times draws that take some seconds uncompiled."""
_FEWEST = 8


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
            present.queue, present.cluster, settings, known.times, samples=samples, seed=seed,
            placing=partial(InTheirQueues, present) if present.listed else None,
        )  # fmt: skip
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


def wait_tables(
    found: Foreseen, present: PresentQueue, candidates: Sequence[Candidate]
) -> dict[str, WaitTable]:
    """By candidate's name; those without a node that works have none."""
    return {
        one.name: wait_table(
            found, present.queue.now_s, present.partition_of[one.name], gpus=one.is_gpu,
            cores_per_gpu=one.translation.cpus_per_gpu or 1,
        )
        for one in candidates
        if one.name in present.partition_of
    }  # fmt: skip


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
