"""One GPU: as good as brute force over all states, running instances stay, demands are expected."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mig_brute_force import best_value, random_problem
from mig_strategies import check, demands, gpu_states, replay
from thorough import examples

from berth.pilot.errors import UsageError
from berth.policies.mig import GpuInstance, GpuState, Layout, Running, lookup
from berth.policies.mig.demands import Arrival, Demand, SliceOption, expected
from berth.policies.mig.plan import PlanObjective, StepAction, ordered, steps
from berth.policies.mig.planner import plan
from berth.policies.mig.planner_gpu import LayoutTable, best_for_gpu

A100 = lookup("A100-40GB")


def job(name: str, *profiles: str, count: int = 1, priority: int = 0) -> Demand:
    """A job whose predictions are simple: k compute slices work k times as fast."""
    options = tuple(
        SliceOption(p, None, float(p[0]), 700 / float(p[0]), 100 / float(p[0])) for p in profiles
    )
    return Demand(name, options, count, priority)


def a100(layout: str = "", *busy: GpuInstance, free_at_s: float | None = None) -> GpuState:
    running = tuple(Running(instance, free_at_s) for instance in busy)
    return GpuState("g", A100, Layout.parse(layout), running)


def on_empty(*jobs: Demand, objective: str = "jobs") -> Layout:
    return plan([a100()], jobs, objective).gpus[0].target


@pytest.mark.parametrize(
    "block", [*range(3), *(pytest.param(block, marks=pytest.mark.slow) for block in range(3, 10))]
)
def test_optimal_against_brute_force_over_all_states(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        problem = random_problem(seed)
        (group,) = problem.groups
        choice = best_for_gpu(LayoutTable(group), problem, [t.count for t in problem.types])
        assert choice.value == best_value(problem), (seed, problem.order)


@settings(deadline=None, max_examples=examples(200))
@given(
    st.data(),
    gpu_states(models=("A30", "A100-40GB", "RTX-PRO-6000")),
    st.sampled_from(["jobs", "throughput", "jobs,makespan", "energy", "recuts"]),
    st.sampled_from([0.0, 50.0, 1000.0]),
)
def test_a_plan_is_legal_complete_and_touches_nothing_that_runs_on(
    data: st.DataObject, state: GpuState, objective: str, horizon_s: float
) -> None:
    jobs = data.draw(demands(state.geometry))
    planned = plan([state], jobs, objective, horizon_s=horizon_s)
    (gpu,) = planned.gpus
    check(planned, [state], jobs, horizon_s)
    used = {p.instance for p in gpu.placements}
    # Nothing is created for nobody; an instance goes only where something takes its place.
    assert set(gpu.created) <= used
    for gone in gpu.destroyed:
        assert gpu.target.plus(gone).problem(state.geometry) is not None


@settings(deadline=None, max_examples=examples(200))
@given(st.data(), gpu_states(), st.sampled_from([0.0, 50.0]))
@pytest.mark.slow
def test_steps_lead_to_the_target_through_legal_layouts(
    data: st.DataObject, state: GpuState, horizon_s: float
) -> None:
    jobs = data.draw(demands(state.geometry))
    (gpu,) = plan([state], jobs, "jobs", horizon_s=horizon_s).gpus
    done = steps([gpu])
    layouts = replay(state.layout, done)
    assert layouts[-1] == gpu.target
    assert all(layout.problem(state.geometry) is None for layout in layouts)
    busy = {r.instance for r in state.running}
    for step in done:
        if step.action is StepAction.DESTROY and step.instance in busy:
            assert step.after_end_of == (step.instance,)
    # Between a wait and the steps before it nothing is destroyed for that wait's sake.
    first_wait = next((n for n, s in enumerate(done) if s.after_end_of), len(done))
    for n, step in enumerate(done[:first_wait]):
        if step.action is StepAction.DESTROY:
            assert any(s.action is StepAction.CREATE for s in done[n:first_wait])


@settings(deadline=None, max_examples=examples(50))
@given(st.data(), gpu_states(models=("A100-40GB",)))
def test_the_same_input_gives_the_same_plan(data: st.DataObject, state: GpuState) -> None:
    jobs = data.draw(demands(state.geometry))
    one, other = (plan([state], jobs, "jobs,throughput") for _ in range(2))
    assert (one.gpus, one.unplaced, one.reached) == (other.gpus, other.unplaced, other.reached)


def test_seven_small_jobs_get_seven_small_slices() -> None:
    assert on_empty(job("a", "1g.5gb", count=9)).counts() == {"1g.5gb": 7}


def test_a_big_job_goes_before_small_ones_by_priority() -> None:
    jobs = (job("small", "1g.5gb", count=7), job("big", "7g.40gb", priority=1))
    assert on_empty(*jobs).counts() == {"7g.40gb": 1}


def test_throughput_takes_larger_slices_than_jobs() -> None:
    one = job("a", "1g.5gb", "7g.40gb")
    assert on_empty(one, objective="jobs,throughput").counts() == {"7g.40gb": 1}
    assert on_empty(one, objective="jobs,recuts").counts() in ({"1g.5gb": 1}, {"7g.40gb": 1})


def test_what_exists_is_used_before_anything_is_cut() -> None:
    state = a100("1g.5gb@6 2g.10gb@0")
    planned = plan([state], [job("a", "1g.5gb", "2g.10gb", count=2)], "jobs")
    assert planned.recuts == 0
    assert planned.placed == 2


def test_a_free_slice_beside_a_running_one_is_re_cut() -> None:
    state = a100("3g.20gb@0 1g.5gb@4 1g.5gb@5", GpuInstance(0, "3g.20gb"))
    (gpu,) = plan([state], [job("a", "3g.20gb")], "jobs").gpus
    assert str(gpu.target) == "3g.20gb@0 3g.20gb@4"
    assert [str(s) for s in steps([gpu])] == [
        "g: destroy 1g.5gb@4", "g: destroy 1g.5gb@5", "g: create 3g.20gb@4",
    ]  # fmt: skip


def test_waiting_within_the_horizon_only() -> None:
    state = a100("7g.40gb@0", GpuInstance(0, "7g.40gb"), free_at_s=1600.0)
    jobs = [job("a", "1g.5gb")]
    assert plan([state], jobs, "jobs", now_s=1000.0, horizon_s=599.0).placed == 0
    planned = plan([state], jobs, "jobs", now_s=1000.0, horizon_s=600.0)
    (placement,) = planned.gpus[0].placements
    assert placement.ready_s == 600.0
    assert steps(planned.gpus)[0].after_end_of == (GpuInstance(0, "7g.40gb"),)


def test_makespan_waits_rather_than_takes_a_slow_slice() -> None:
    state = a100("4g.20gb@0 1g.5gb@4", GpuInstance(0, "4g.20gb"), free_at_s=10.0)
    planned = plan([state], [job("a", "1g.5gb", "4g.20gb")], "makespan", horizon_s=60.0)
    (placement,) = planned.gpus[0].placements
    assert placement.instance == GpuInstance(0, "4g.20gb")
    assert placement.finish_s == 10.0 + 175.0


def test_a_frozen_gpu_gives_only_what_it_has() -> None:
    state = a100("1g.5gb@0")
    planned = plan([state], [job("a", "1g.5gb", count=3)], "jobs", recut=False)
    assert (planned.placed, planned.recuts) == (1, 0)


def test_a_gpu_with_mig_off_is_not_touched_and_that_is_said() -> None:
    planned = plan([GpuState("g", A100, mig_enabled=False)], [job("a", "1g.5gb")], "jobs")
    assert planned.placed == 0
    assert planned.notes == ("g: MIG mode is off, so it cannot be cut",)


def test_what_stays_unplaced_says_why() -> None:
    state = a100("4g.20gb@0", GpuInstance(0, "4g.20gb"))
    jobs = [job("whole", "7g.40gb"), job("other", "4g.24gb"), job("three", "3g.20gb", count=2)]
    reasons = {u.job: u.reason for u in plan([state], jobs, "jobs").unplaced}
    assert "beside what is running no GPU can make a 7g.40gb" in reasons["whole"]
    assert "no GPU of the fleet (A100-40GB) has a profile 4g.24gb" in reasons["other"]
    assert "goes to jobs that serve the objectives better" in reasons["three"]


@pytest.mark.parametrize(
    ("asked", "order"),
    [
        ("makespan", "jobs,makespan,recuts"),
        ("throughput", "throughput,jobs,recuts"),
        ("jobs, energy", "jobs,energy,recuts"),
        ("recuts", "jobs,recuts"),
    ],
)
def test_a_cost_alone_never_means_placing_nothing(asked: str, order: str) -> None:
    assert ",".join(o.value for o in ordered(asked)) == order


@pytest.mark.parametrize("asked", ["speed", "jobs,jobs", "", "energy,jobs"])
def test_objectives_that_make_no_sense_are_refused(asked: str) -> None:
    with pytest.raises(UsageError):
        ordered(asked)


def test_a_missing_prediction_is_named() -> None:
    bare = Demand("a", (SliceOption("1g.5gb"),))
    with pytest.raises(UsageError, match=r"job a: throughput on 1g.5gb is missing"):
        plan([a100()], [bare], "throughput")


@pytest.mark.parametrize(
    "demand",
    [
        Demand("a", ()),
        Demand("a", (SliceOption("1g.5gb"),), count=0),
        Demand("a", (SliceOption("1g.5gb", throughput=float("nan")),)),
        Demand("a", (SliceOption("1g.5gb", runtime_s=-1.0),)),
    ],
)
def test_demands_that_make_no_sense_are_refused(demand: Demand) -> None:
    with pytest.raises(UsageError, match="job a"):
        plan([a100()], [demand], "jobs")


def test_no_gpu_one_twice_and_an_unknown_solver_are_refused() -> None:
    with pytest.raises(UsageError, match="no GPU"):
        plan([], [job("a", "1g.5gb")])
    with pytest.raises(UsageError, match="given twice"):
        plan([a100(), a100()], [job("a", "1g.5gb")])
    with pytest.raises(UsageError, match="'magic' is not a solver"):
        plan([a100()], [job("a", "1g.5gb")], solver="magic")


def test_jobs_without_demand_leave_everything_alone() -> None:
    state = a100("1g.5gb@3")
    planned = plan([state], [], "jobs")
    assert planned.gpus[0].target == state.layout
    assert [r.objective for r in planned.reached] == [PlanObjective.RECUTS]


SMALL = Demand("small", (SliceOption("1g.5gb"),), count=5, priority=3)
LARGE = Demand("large", (SliceOption("4g.20gb"),))


def test_what_came_in_the_window_is_expected_at_its_rate() -> None:
    history = [Arrival(100.0 * n, SMALL) for n in range(1, 37)]
    history += [Arrival(3600.0, LARGE), Arrival(9999.0, LARGE)]
    outlook = expected(history, now_s=3600.0, window_s=3600.0, horizon_s=600.0)
    assert [(d.name, d.count, d.priority) for d in outlook] == [("small", 6, -1)]
    assert expected(history, now_s=99_999.0, window_s=3600.0, horizon_s=600.0) == ()


def test_the_queue_goes_before_what_is_only_expected() -> None:
    outlook = expected(
        [Arrival(n, SMALL) for n in range(1, 8)], now_s=7.0, window_s=7.0, horizon_s=7.0
    )
    planned = plan([GpuState("g", lookup("A100-40GB"))], [LARGE, *outlook], "jobs")
    assert planned.gpus[0].target.counts() == {"4g.20gb": 1, "1g.5gb": 3}


@pytest.mark.parametrize(("window_s", "horizon_s"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0)])
def test_a_window_or_horizon_of_nothing_is_refused(window_s: float, horizon_s: float) -> None:
    with pytest.raises(UsageError, match="positive"):
        expected([], now_s=0.0, window_s=window_s, horizon_s=horizon_s)
