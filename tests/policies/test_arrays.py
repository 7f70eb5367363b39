"""Arrays are scored by when their last task ends, by how many run at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_builders import GIB, NOW_S, FixedRights, H, cpu, curve, forecast, gpu, request, state

from berth.policies.arrays import rounds, work_of
from berth.policies.decide import Decider
from berth.policies.limits import Denied, Limit, Scope
from berth.policies.settings import PolicySettings, Weights
from berth.policies.values import (
    Candidate,
    CandidateState,
    Decision,
    Makespan,
    Request,
    TaskArray,
    Translation,
)
from berth.policies.waits import WaitTable
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Interval
from berth.predictor.core.sizes import SizeGrowth

CPU = cpu(cores_per_node=48, nodes=2)
GPU = gpu(nodes=1, translation=Translation(gpus=1, cpus_per_gpu=4))
"""96 cores and 4 GPUs."""
PLACES = (CPU, GPU)


def times(cpu_s: float = 6.0, gpu_s: float = 2.0, **changes: Any) -> Forecast:
    """Of one core, and of one GPU."""
    return forecast(
        curve("cpu", cpu_s, factor=1.1), curve("gpu", gpu_s, factor=1.1, gpus=True), **changes
    )


def job(array: TaskArray | None, **changes: Any) -> Request:
    return request(**{"tasks": 1, "wants_placement": True, "array": array, **changes})


def decided(
    asked: Request,
    now: dict[str, CandidateState],
    predicted: Forecast | None = None,
    candidates: tuple[Candidate, ...] = PLACES,
    **settings: Any,
) -> Decision:
    decider = Decider(candidates, PolicySettings(**settings))
    return decider.decide(asked, now, predicted or times(), NOW_S)


def idle(cores: int = 96, gpus: int = 4, **changes: Any) -> dict[str, CandidateState]:
    return {
        "cpu": state(idle_cores=cores, usable_nodes=2, **changes),
        "gpu": state(idle_cores=64, idle_gpus=gpus, usable_nodes=1, **changes),
    }


def makespans(decision: Decision) -> dict[str, Makespan]:
    return {row.candidate: row.makespan for row in decision.ranked if row.makespan is not None}


def test_an_array_goes_where_its_last_task_ends_first() -> None:
    assert decided(job(None), idle()).chosen == "gpu"
    decision = decided(job(TaskArray(60)), idle())
    assert decision.chosen == "cpu"
    spans = makespans(decision)
    assert (spans["cpu"].at_once, spans["cpu"].seconds) == (60, pytest.approx(6.0))
    assert (spans["gpu"].at_once, spans["gpu"].seconds) == (4, pytest.approx(30.0))
    assert "60 tasks, all at a time: 6 s; each takes 6 s (5.45 s to 6.6 s)" in decision.reason
    assert "gpu with 2 s a task and 30 s (4 at a time) for all ranks behind it" in decision.reason
    assert "5.0 times faster than gpu" in decision.reason


def test_a_full_place_loses_to_one_with_room() -> None:
    decision = decided(job(TaskArray(60)), idle(cores=2), times(cpu_s=600.0, gpu_s=200.0))
    spans = makespans(decision)
    # As soon as its share of the full place is free, or at once with what is idle.
    assert spans["gpu"].at_once == 4
    assert decision.chosen == "cpu"
    busy = WaitTable((1, 96), (1e9,), ((Interval(0, 0, 0),), (Interval(9 * H, 9 * H, 9 * H),)))
    now = idle(cores=2)
    now["cpu"] = replace(now["cpu"], waits=busy)
    decision = decided(job(TaskArray(60)), now, times(cpu_s=600.0, gpu_s=200.0))
    assert decision.chosen == "gpu"
    assert makespans(decision)["cpu"].at_once == 2
    assert "60 tasks, 4 at a time: 50m 00s; each takes 3m 20s" in decision.reason
    assert "times faster than cpu with 5h 00m (2 at a time)" in decision.reason


def test_who_waits_shares_what_is_idle_and_the_place_as_a_whole() -> None:
    alone = makespans(decided(job(TaskArray(500)), idle()))["cpu"]
    among = makespans(decided(job(TaskArray(500)), idle(pending_jobs=3)))["cpu"]
    assert alone.at_once == 96
    assert among.at_once <= 24
    assert among.wait_s > 0


@pytest.mark.parametrize("at_once", [1, 4, 7, 60, 1000])
def test_no_more_run_at_a_time_than_its_user_allows(at_once: int) -> None:
    spans = makespans(decided(job(TaskArray(60, at_once)), idle()))
    assert spans["cpu"].at_once == min(60, at_once)
    assert spans["gpu"].at_once == min(4, at_once)
    if at_once == 1:  # then the time of one task decides
        assert decided(job(TaskArray(60, 1)), idle()).chosen == "gpu"


@pytest.mark.parametrize(
    ("limit", "at_once"),
    [
        (Limit(Scope.JOB, 8, "QOS normal", "cpu", together=True), 8),
        (Limit(Scope.JOB, 8, "QOS normal", "cpu"), 60),
        (Limit(Scope.RUNNING, 5, "account physics"), 5),
        (Limit(Scope.RUNNING, 0, "account physics"), 1),
        (Limit(Scope.JOB, 8, "QOS normal", "gres/gpu", together=True), 60),
    ],
)
def test_no_more_run_at_a_time_than_user_and_account_may_hold(limit: Limit, at_once: int) -> None:
    rights = FixedRights(by_user={"ada": (limit,)})
    decider = Decider(PLACES, PolicySettings())
    now = idle(rights=rights)
    widths = [
        makespans(decider.decide(job(TaskArray(60), user=user), now, times(), NOW_S))["cpu"]
        for user in ("bob", "ada", "bob")
    ]
    assert [makespan.at_once for makespan in widths] == [60, at_once, 60]


def test_a_place_that_its_user_may_not_use_is_ruled_out_as_before() -> None:
    decision = decided(
        job(TaskArray(60)), idle(rights=FixedRights(by_user={"ada": Denied("no account")}))
    )
    assert decision.chosen is None
    assert decision.code == "not-associated"


@given(
    st.integers(2, 200),
    st.integers(0, 96),
    st.integers(0, 96),
    st.integers(0, 4),
    st.sampled_from([0, 1, 5]),
    st.sampled_from([0.0, 1.0, 3.0]),
    st.booleans(),
)
def test_more_that_is_idle_never_makes_an_array_later(
    tasks: int, cores: int, more: int, gpus: int, pending: int, weight: float, table: bool
) -> None:
    waits = None
    if table:
        waits = WaitTable(
            (1, 8, 96), (10.0, 1e9), tuple((Interval(0, s, s), Interval(0, 2 * s, 9 * s))
                                           for s in (5.0, 50.0, 900.0)),
        )  # fmt: skip
    least, most = sorted((cores, more))
    scores = []
    for there in (least, most):
        now = idle(cores=there, gpus=gpus, pending_jobs=pending, waits=waits)
        decision = decided(job(TaskArray(tasks)), now, weights=Weights(wait=weight))
        spans = makespans(decision)
        assert all(1 <= one.at_once <= tasks for one in spans.values())
        assert spans["gpu"].at_once <= 4
        scores.append({row.candidate: row.score for row in decision.ranked})
    assert scores[1]["cpu"] <= scores[0]["cpu"] * (1 + 1e-12)
    assert scores[1]["gpu"] == scores[0]["gpu"]


@given(st.integers(2, 10_000), st.integers(1, 10_000), st.integers(1, 10_000))
def test_rounds_fall_as_more_run_at_a_time(tasks: int, one: int, other: int) -> None:
    few, many = sorted((min(one, tasks), min(other, tasks)))
    assert rounds(tasks, tasks, tasks) == 1
    assert rounds(tasks, many, tasks) <= rounds(tasks, few, tasks)
    assert rounds(tasks, few, tasks) == -(-tasks // few)
    assert rounds(tasks, many, tasks / 2) <= rounds(tasks, many, tasks)


@pytest.mark.parametrize("wait", [0.0, 1.0])
def test_what_is_idle_counts_even_where_waits_do_not(wait: float) -> None:
    decider = Decider(PLACES, PolicySettings(weights=Weights(wait=wait)))
    busy = WaitTable((96,), (1e9,), ((Interval(9 * H, 9 * H, 9 * H),),))
    room, full = idle(), idle(cores=3)
    full["cpu"] = replace(full["cpu"], waits=busy)
    asked = job(TaskArray(60))
    chosen = [decider.decide(asked, now, times(), NOW_S).chosen for now in (room, full, room)]
    assert chosen == ["cpu", "gpu", "cpu"]
    alone = [decider.decide(job(None), now, times(), NOW_S).chosen for now in (room, full, room)]
    assert alone == ["gpu", "gpu", "gpu"]


def test_arrays_of_other_width_or_throttle_share_no_answer() -> None:
    decider = Decider(PLACES, PolicySettings())
    arrays = [None, TaskArray(60), TaskArray(60, 4), TaskArray(4), TaskArray(60, 1), None]
    asked = [job(one) for one in arrays]
    now, predicted = idle(), times()
    together = [decider.decide(one, now, predicted, NOW_S) for one in asked]
    alone = [decided(one, now, predicted) for one in asked]
    assert [one.ranked for one in together] == [one.ranked for one in alone]
    assert [one.id for one in together] == [one.id for one in alone]
    assert len({one.id for one in together}) == len(set(arrays))
    assert together[0].chosen == "gpu"
    assert together[1].chosen == "cpu"


@pytest.mark.parametrize("objective", ["fastest", "earliest", "balanced"])
def test_objectives_with_time_in_them_compare_makespans(objective: str) -> None:
    settings = {"objective": objective, "weights": Weights(cost=0.0)}
    assert decided(job(None), idle(), None, PLACES, **settings).chosen == "gpu"
    assert decided(job(TaskArray(60)), idle(), None, PLACES, **settings).chosen == "cpu"


def test_the_last_task_must_meet_the_deadline_and_each_task_its_limit() -> None:
    cheap = replace(GPU, price_per_gpu_hour=0.001)

    def place(array: TaskArray | None, within_s: float, limit_s: float | None = None) -> Decision:
        asked = job(array, time_limit_s=limit_s)
        asked = replace(asked, needs=replace(asked.needs, finish_within_s=within_s))
        return decided(asked, idle(), None, (CPU, cheap), objective="deadline")

    assert place(None, 20.0).chosen == "gpu"
    assert place(TaskArray(60), 20.0).chosen == "cpu"
    assert place(TaskArray(60), 40.0).chosen == "gpu"
    assert place(TaskArray(60), 40.0, limit_s=3.0).chosen == "gpu"


def test_cheapest_and_least_energy_are_as_for_one_task() -> None:
    for objective in ("cheapest", "least-energy"):
        one = decided(job(None), idle(), objective=objective)
        many = decided(job(TaskArray(60)), idle(), objective=objective)
        assert [(r.candidate, r.score) for r in one.ranked] == [
            (r.candidate, r.score) for r in many.ranked
        ]


def test_the_terms_of_an_arrays_score_name_its_width() -> None:
    decider, now = Decider(PLACES, PolicySettings()), idle()
    asked, predicted = job(TaskArray(60)), times()
    decision = decider.decide(asked, now, predicted, NOW_S)
    terms = {t.name: t.value for t in decider.terms(asked, decision.ranked[1], now, predicted)}
    assert terms == {
        "predicted time of a task": pytest.approx(2.0),
        "tasks": 60,
        "of them at a time": 4,
        "until the last one ends": pytest.approx(30.0),
    }


def test_memory_and_whole_nodes_bound_how_many_run_at_a_time() -> None:
    heavy = decided(job(TaskArray(60), memory_bytes_per_node=60 * GIB), idle())
    assert makespans(heavy)["cpu"].at_once == 2 * (128 // 60)
    asked = job(TaskArray(60))
    whole = decided(replace(asked, needs=replace(asked.needs, exclusive=True)), idle())
    assert makespans(whole)["cpu"].at_once == 2


def test_a_place_of_unknown_state_counts_as_idle() -> None:
    decision = decided(job(TaskArray(60)), {}, strict=False)
    assert {name: one.at_once for name, one in makespans(decision).items()} == {"cpu": 60, "gpu": 4}


SIZES = SizeGrowth.fit(((1.0, 1.0, 1.0 * GIB), (10.0, 10.0, 10.0 * GIB)), size=1.0)


def test_tasks_of_different_size_are_placed_by_their_sum_and_their_largest() -> None:
    predicted = times(sizes=SIZES)
    sizes = TaskArray(60, None, ((1.0, 50), (10.0, 10)))
    assert work_of(sizes, predicted, 1) == pytest.approx(50 / 10 + 10)
    decision = decided(job(sizes, size=10.0), idle(), predicted)
    spans = makespans(decision)
    # Largest first or last: at most the largest, and the rest shared by all that run.
    assert spans["gpu"].seconds == pytest.approx(20.0 * (1 + 14 / 4))
    assert spans["cpu"].seconds == pytest.approx(60.0)
    assert "the largest takes 60 s" in decision.reason
    as_large = makespans(decided(job(TaskArray(60), size=10.0), idle(), predicted))
    assert spans["gpu"].seconds < as_large["gpu"].seconds == pytest.approx(300.0)
    limited = decided(job(sizes, size=10.0, time_limit_s=50.0), idle(), predicted)
    assert {r.candidate: r.code for r in limited.ranked if r.code} == {"cpu": "time-over-limit"}


def test_a_workload_without_sizes_counts_every_task_as_profiled() -> None:
    sizes = TaskArray(60, None, ((1.0, 50), (10.0, 10)))
    assert work_of(sizes, times(sizes=SizeGrowth(None, GIB)), 1) == 60
