"""Fleets: the column model proves what brute force finds, and the heuristic is honest."""

from __future__ import annotations

import importlib.util
import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mig_brute_force import ORDERS, random_problem
from mig_strategies import check, demands, gpu_states
from thorough import examples

from berth.pilot.errors import ToolMissing, UsageError
from berth.policies.mig import GpuInstance, GpuState, Layout, Running, lookup
from berth.policies.mig import planner as front
from berth.policies.mig.columns import bundles_by_slots
from berth.policies.mig.demands import Demand, SliceOption
from berth.policies.mig.layout import enumerate_states
from berth.policies.mig.plan import Hysteresis, MigPlan, gain, ordered, worth_recutting
from berth.policies.mig.planner import plan
from berth.policies.mig.planner_fleet import solve
from berth.policies.mig.planner_gpu import LayoutTable, best_for_gpu
from berth.policies.mig.problem import build

A100 = lookup("A100-40GB")


def fleet_of(
    seed: int, size: int, models: tuple[str, ...] = ("A100-40GB", "A30")
) -> list[GpuState]:
    """Maximal layouts at random, a third of the instances busy."""
    generator = random.Random(seed)  # noqa: S311
    states = []
    for n in range(size):
        geometry = lookup(models[n % len(models)])
        layout = generator.choice(enumerate_states(geometry.plain()).maximal)
        busy = tuple(
            Running(i, generator.choice([None, generator.randint(10, 100)]))
            for i in layout.instances
            if generator.random() < 1 / 3
        )
        states.append(GpuState(f"g{n:03d}", geometry, layout, busy))
    return states


def jobs_of(seed: int, types: int, count: int) -> list[Demand]:
    generator = random.Random(seed)  # noqa: S311
    profiles = [p.name for m in ("A100-40GB", "A30") for p in lookup(m).plain().profiles]
    return [
        Demand(
            f"job{n}",
            tuple(
                SliceOption(
                    p,
                    None,
                    generator.randint(1, 9),
                    generator.randint(5, 50),
                    generator.randint(1, 9),
                )
                for p in generator.sample(profiles, generator.randint(1, 5))
            ),
            count=count,
            priority=generator.randint(0, 1),
        )
        for n in range(types)
    ]


@pytest.mark.parametrize("block", range(4))
def test_the_column_model_agrees_with_the_exact_table_on_one_gpu(block: int) -> None:
    for seed in range(25 * block, 25 * block + 25):
        problem = random_problem(seed)
        (group,) = problem.groups
        exact = best_for_gpu(LayoutTable(group), problem, [t.count for t in problem.types])
        columns = solve(problem, time_limit_s=20.0)
        assert tuple(s.value for s in columns.stages) == exact.value, (seed, problem.order)
        assert all(s.bound == s.value for s in columns.stages)


@settings(deadline=None, max_examples=examples(60))
@given(st.data(), st.sampled_from(ORDERS))
def test_two_gpus_are_as_good_as_every_split_of_the_jobs(data: st.DataObject, order: str) -> None:
    """Brute force over two: each way to share the jobs out, each GPU by the exact table."""
    states = [data.draw(gpu_states(name, models=("A30",))) for name in ("a", "b")]
    jobs = [
        Demand(d.name, d.options, 1, d.priority)
        for d in data.draw(demands(states[0].geometry, most=5))
    ]
    if "makespan" in order:
        order = "jobs"
    problem = build(states, jobs, ordered(order))
    tables = [LayoutTable(g) for g in problem.groups for _ in g.members]
    counts = [t.count for t in problem.types]
    best = None
    for split in _splits(counts):
        rest = [n - m for n, m in zip(counts, split, strict=True)]
        both = [best_for_gpu(tables[0], problem, split), best_for_gpu(tables[1], problem, rest)]
        value = tuple(map(sum, zip(*(c.value for c in both), strict=True)))
        best = value if best is None else max(best, value)
    assert tuple(s.value for s in solve(problem, time_limit_s=20.0).stages) == best


def _splits(counts: list[int]) -> list[list[int]]:
    if not counts:
        return [[]]
    return [[n, *rest] for n in range(counts[0] + 1) for rest in _splits(counts[1:])]


@pytest.mark.parametrize("order", ["jobs", "jobs,throughput", "jobs,makespan", "jobs,energy"])
@pytest.mark.parametrize("horizon_s", [0.0, 60.0])
def test_plans_of_both_planners_hold_what_every_plan_must(order: str, horizon_s: float) -> None:
    fleet, jobs = fleet_of(1, 12), jobs_of(2, 6, 8)
    exact = plan(fleet, jobs, order, horizon_s=horizon_s, solver="cp-sat")
    quick = plan(fleet, jobs, order, horizon_s=horizon_s, solver="heuristic", time_limit_s=4.0)
    for planned in (exact, quick):
        check(planned, fleet, jobs, horizon_s)
    assert all(reached.gap == 0 for reached in exact.reached)
    assert exact.reached[-1].bound == exact.recuts
    first, reached = exact.reached[0], quick.reached[0]
    assert 0.75 * first.value <= reached.value <= first.value
    assert reached.gap is None


def test_a_plan_is_the_same_however_the_fleet_is_listed() -> None:
    fleet, jobs = fleet_of(3, 10), jobs_of(4, 5, 6)
    one = plan(fleet, jobs, "jobs,throughput", solver="cp-sat")
    other = plan(fleet[::-1], jobs, "jobs,throughput", solver="cp-sat")
    assert one.gpus == other.gpus


def test_128_gpus_and_500_jobs_are_proven_best() -> None:
    """``benchmarks/mig_planner.py`` prints the time."""
    fleet, jobs = fleet_of(5, 128, ("A100-40GB",)), jobs_of(6, 50, 10)
    planned = plan(fleet, jobs, "jobs", solver="cp-sat")
    check(planned, fleet, jobs)
    assert all(reached.gap == 0 for reached in planned.reached)


def test_equal_gpus_are_planned_as_one_bundle() -> None:
    fleet = [GpuState(f"g{n}", A100) for n in range(50)]
    problem = build(fleet, [Demand("a", (SliceOption("2g.10gb"),), 99)], ordered("jobs"))
    assert len(problem.groups) == 1
    assert [b.size for b in bundles_by_slots(problem)] == [50]


def test_fewest_gpus_packs_the_jobs_together() -> None:
    fleet = [GpuState(f"g{n}", A100) for n in range(5)]
    planned = plan(fleet, [Demand("a", (SliceOption("1g.5gb"),), 14)], "jobs,gpus")
    assert sum(bool(g.placements) for g in planned.gpus) == 2


def test_a_gpu_without_work_keeps_its_idle_instances() -> None:
    fleet = [GpuState(name, A100, Layout.parse("1g.5gb@0")) for name in "ab"]
    planned = plan(fleet, [Demand("a", (SliceOption("1g.5gb"),))], "jobs,gpus")
    assert planned.recuts == 0
    assert [r.value for r in planned.reached] == [1.0, 1.0, 0.0]


def test_jobs_go_only_to_the_model_that_they_name() -> None:
    """1g.10gb is a double-memory slice of an A100-40GB and a plain one of an H100."""
    fleet = [GpuState("a", A100), GpuState("h", lookup("H100-80GB"))]
    wanted = Demand("a", (SliceOption("1g.10gb", gpu="H100 80GB HBM3"),), 9)
    planned = plan(fleet, [wanted], "jobs")
    assert [len(g.placements) for g in planned.gpus] == [0, 7]


def test_a_time_limit_of_nothing_still_gives_a_plan() -> None:
    fleet, jobs = fleet_of(7, 20), jobs_of(8, 6, 10)
    planned = plan(fleet, jobs, "jobs,throughput", solver="cp-sat", time_limit_s=0.0)
    check(planned, fleet, jobs)


def test_without_or_tools_the_heuristic_steps_in(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, jobs = fleet_of(9, 4), jobs_of(10, 3, 3)
    monkeypatch.setattr(front, "find_spec", lambda _: None)
    assert plan(fleet, jobs, "jobs").solver == "heuristic"
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(ToolMissing, match="OR-tools"):
        plan(fleet, jobs, "jobs", solver="cp-sat")


def test_importing_the_planner_does_not_import_the_solver() -> None:
    assert importlib.util.find_spec("ortools") is not None
    assert "ortools" not in vars(sys.modules["berth.policies.mig.planner_fleet"])


def test_the_table_refuses_more_than_one_gpu() -> None:
    with pytest.raises(UsageError, match="one GPU"):
        plan(fleet_of(1, 2), jobs_of(1, 1, 1), "jobs", solver="table")


def _two_plans() -> tuple[MigPlan, MigPlan]:
    state = GpuState("g", A100, Layout.of(GpuInstance(0, "7g.40gb")))
    jobs = [Demand("a", (SliceOption("1g.5gb"), SliceOption("7g.40gb")), 7)]
    return plan([state], jobs, "jobs"), plan([state], jobs, "jobs", recut=False)


def test_hysteresis_waits_for_dwell_and_gain() -> None:
    new, stay = _two_plans()
    assert gain(new, stay)[0] == 6.0
    rules = Hysteresis(min_dwell_s=600.0, min_gain=0.1)
    early = worth_recutting(new, stay, rules, now_s=1000.0, last_recut_s=900.0)
    assert not early.recut
    assert "wait" in early.reason
    late = worth_recutting(new, stay, rules, now_s=2000.0, last_recut_s=900.0)
    assert late.recut
    assert late.reason == "jobs improves by 600 %"
    greedy = Hysteresis(0.0, min_gain=7.0)
    assert not worth_recutting(new, stay, greedy, now_s=0.0, last_recut_s=None).recut
    assert not worth_recutting(stay, stay, rules, now_s=0.0, last_recut_s=None).recut


def test_gain_from_nothing_is_infinite_and_re_cuts_are_no_gain() -> None:
    state = GpuState("g", A100)
    jobs = [Demand("a", (SliceOption("1g.5gb"),))]
    new, stay = plan([state], jobs, "jobs"), plan([state], jobs, "jobs", recut=False)
    assert gain(new, stay)[0] == float("inf")
    assert worth_recutting(new, stay, Hysteresis(), now_s=0.0, last_recut_s=None).recut
    with pytest.raises(ValueError, match="negative"):
        Hysteresis(min_gain=-1.0)
