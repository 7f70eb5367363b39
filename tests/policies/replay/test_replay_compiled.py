"""The compiled kernel and the same Python uncompiled agree job by job."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs the extra `replay`")

from replay_validation import problems

from berth.policies.replay import Backfill, Settings, Trace, one_pool, replay, trace_of

CORES = 64


def trace_of_many(jobs: int, seed: int) -> Trace:
    """A crowded machine: the queue is dozens of jobs long most of the time."""
    rng = np.random.default_rng(seed)
    run = np.ceil(rng.lognormal(4.0, 1.5, jobs))
    asked = np.ceil(run * rng.uniform(0.8, 6.0, jobs))
    cores = np.minimum(2 ** rng.integers(0, 7, jobs), CORES)
    gap = float((run * cores).mean()) / CORES * 0.95
    return trace_of(
        np.cumsum(np.ceil(rng.exponential(gap, jobs))), run, cores,
        limit_s=asked, user=rng.integers(0, 7, jobs), queues=("all",),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("backfill", [Backfill.EASY, Backfill.REPLANNED])
def test_compiled_and_uncompiled_replays_are_the_same(backfill: Backfill) -> None:
    """Some 25 s each the first time."""
    for seed, kill in ((1, True), (2, False)):
        trace = trace_of_many(800, seed)
        plain, compiled = (
            replay(
                trace,
                one_pool(CORES),
                Settings(backfill, kill_at_limit=kill, compiled=how),
            )
            for how in (False, True)
        )
        assert compiled.start_s.tolist() == plain.start_s.tolist()
        assert compiled.end_s.tolist() == plain.end_s.tolist()
        assert compiled.counts == plain.counts
        assert plain.counts.killed > 0 or not kill
        assert float(np.median(plain.start_s - trace.submit_s)) > 0  # jobs did wait
        assert problems(compiled) == []
