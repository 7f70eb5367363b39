"""MIG in a replay: slices that are there, GPUs cut anew by the planner, drained GPUs, the costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_validation import problems
from thorough import examples

from berth.pilot.errors import UsageError
from berth.policies.mig import Layout, lookup
from berth.policies.mig.plan import Hysteresis
from berth.policies.replay import (
    Backfill,
    Cluster,
    NodeKind,
    Partition,
    Recutting,
    Replayed,
    Settings,
    Trace,
    metrics,
    replay,
    trace_of,
)
from berth.policies.replay.changes import changed

WHOLE, SMALL = "gpu-mig-7g.40gb", "gpu-mig-1g.5gb"
QUEUES = (SMALL, WHOLE, "gpu-mig-3g.20gb")
RULES = Recutting(every_s=10.0, cost_s=5.0, patience=Hysteresis(0.0, 0.05), window_s=0.0)
NODES = Cluster(
    (NodeKind("gpu", 2, 16, gpus=1, platform="A100-40GB", price_per_gpu_hour=7.0),),
    (Partition("gpu", ("gpu",)),),
)
CUT = changed(NODES, ["nodes.gpu.mig=2"])


def trace(rows: list[tuple[float, float, str]], slices: int = 1) -> Trace:
    """Submission, run time, partition."""
    submit, run, queue = zip(*rows, strict=True)
    size = len(rows)
    return trace_of(
        np.array(submit, float), np.array(run, float), np.ones(size, np.int64),
        gpus=np.full(size, slices), queue=np.array([QUEUES.index(q) for q in queue]),
        queues=QUEUES,
    )  # fmt: skip


def replayed(jobs: Trace, rules: Recutting | None = RULES, cluster: Cluster = CUT) -> Replayed:
    result = replay(jobs, cluster, Settings(Backfill.EASY, recutting=rules, compiled=False))
    assert problems(result) == []
    assert result.counts.adds_up
    return result


@pytest.mark.slow
def test_a_gpu_that_is_not_cut_anew_gives_only_what_it_has() -> None:
    jobs = trace([(0, 10, WHOLE), (0, 10, WHOLE), (0, 10, WHOLE), (1, 10, SMALL)])
    result = replayed(jobs, None)
    assert result.start_s[:3].tolist() == [0, 0, 10]
    assert result.counts.never == 1  # no slice of its profile is ever there
    assert result.recuts == ()


def test_idle_gpus_are_cut_for_what_waits_and_pay_for_it() -> None:
    result = replayed(trace([(0, 100, WHOLE), (1, 50, SMALL), (2, 50, SMALL)]))
    # The first look is at 10 s; one GPU runs a job, the other is cut and drained for 5 s.
    assert [(one.at_s, one.ready_s) for one in result.recuts] == [(10, 15)]
    assert result.start_s.tolist() == [0, 15, 15]
    assert result.recuts[0].before == Layout.parse("7g.40gb@0")
    assert result.recuts[0].after.counts() == {"1g.5gb": 2}
    figures = metrics(result)
    assert (figures.recuts, figures.drained_gpu_h) == (1, 5 / 3600)
    assert figures.cost == pytest.approx((100 * 7 + 2 * 50 * 1) / 3600)


def test_no_gpu_is_cut_under_a_job() -> None:
    rows = [(0, 100, WHOLE), (0, 60, WHOLE), (1, 10, SMALL)]
    result = replayed(trace(rows))
    assert result.start_s.tolist() == [0, 0, 65]  # after the end at 60 s, and 5 s of cutting


def test_what_stays_on_a_drained_gpu_takes_no_job_until_it_is_ready() -> None:
    cut = changed(NODES, ["nodes.gpu.mig=1", "nodes.gpu-mig.layout=3g.20gb@0 3g.20gb@4"])
    rows = [(0, 100, "gpu-mig-3g.20gb"), (1, 10, SMALL), (11, 10, "gpu-mig-3g.20gb")]
    result = replayed(trace(rows), RULES, cut)
    assert result.start_s[1] == 15
    assert result.start_s[2] >= 15  # no job starts on it until then


def test_a_new_layout_stays_for_its_dwell_time() -> None:
    patient = replace(RULES, patience=Hysteresis(200.0, 0.05))
    rows = [(0, 5, SMALL), (0, 5, SMALL), (40, 5, WHOLE), (40, 5, WHOLE)]
    result = replayed(trace(rows), patient, changed(NODES, ["nodes.gpu.mig=1"]))
    assert [one.at_s for one in result.recuts] == [10, 210]
    assert result.start_s.tolist() == [15, 15, 215, 220]


def test_gpus_are_cut_for_jobs_that_are_expected() -> None:
    rules = replace(RULES, window_s=100.0, horizon_s=100.0)
    small = [(float(at), 15.0, SMALL) for at in range(0, 100, 10)]
    result = replayed(trace(small), rules)
    eager = result.recuts[0].after.counts()["1g.5gb"]
    plain = replayed(trace(small)).recuts[0].after.counts()["1g.5gb"]
    assert eager > plain  # for those that wait, and for two that are expected


JOB = st.tuples(st.integers(0, 20), st.integers(0, 60), st.sampled_from(QUEUES))


@given(
    st.lists(JOB, min_size=1, max_size=20),
    st.sampled_from(list(Backfill)),
    st.sampled_from([0.0, 30.0]),
    st.integers(1, 2),
)
@settings(max_examples=examples(25), deadline=None)
@pytest.mark.slow
def test_every_replay_with_slices_is_valid(
    rows: list[tuple[int, int, str]], mode: Backfill, dwell_s: float, slices: int
) -> None:
    at, jobs = 0, []
    for gap, run, queue in rows:
        at += gap
        jobs.append((float(at), float(run), queue))
    rules = replace(RULES, patience=Hysteresis(dwell_s, 0.05), every_s=7.0)
    singles = trace(jobs)
    many = replace(singles, gpus=np.where(singles.queue == 0, slices, 1))
    result = replay(many, CUT, Settings(mode, recutting=rules, compiled=False))
    assert problems(result) == []
    assert result.counts.adds_up
    assert result.counts.ended == len(jobs)


def test_the_validator_notices_a_slice_that_is_not_there() -> None:
    good = replayed(trace([(0, 100, WHOLE), (1, 50, SMALL), (2, 50, SMALL)]))
    early = good.start_s.copy()
    early[1] = 12.0
    wrong = problems(replace(good, start_s=early))
    assert any("is not there all that time" in one for one in wrong)
    assert any("which is drained" in one for one in wrong)
    under = replace(good.recuts[0], gpu=1 - good.recuts[0].gpu)
    assert any("not there" in one for one in problems(replace(good, recuts=(under,))))
    never = replace(good.recuts[0], after=Layout.parse("4g.20gb@0 4g.20gb@4"))
    assert any("is cut to" in one for one in problems(replace(good, recuts=(never,))))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["nodes.gpu.mig=3"], "has 2 nodes"),
        (["nodes.gpu.mig=1", "nodes.gpu-mig.layout=4g.20gb@4"], "may start"),
        (["nodes.gpu.layout=7g.40gb@0"], "no GPUs 'gpu' are cut"),
        (["nodes.gpu.mig=1", "nodes.gpu-mig-1g.5gb.count=+1"], "are slices"),
        (["nodes.gpu.gpus=0", "nodes.gpu.mig=1"], "no GPUs to cut"),
    ],
)
def test_a_cut_that_cannot_be_says_why(changes: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        changed(NODES, changes)


def test_slices_are_counted_as_parts_of_their_gpus() -> None:
    assert lookup("A100-40GB").gpu == "A100-40GB"
    assert CUT.whole_gpus == 2
    assert CUT.kind("gpu").count == 0
    result = replayed(trace([(0, 70, WHOLE), (0, 70, WHOLE)]), None)
    assert metrics(result).gpu_utilisation == 1.0
