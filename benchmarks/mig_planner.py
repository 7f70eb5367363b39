"""The MIG planner: exact on one GPU, proven on fleets, and beside other ways to cut.

Bars: optimal on every single-GPU instance; 128 GPUs and 500 jobs with a third of the slices busy
proven (gap 0) in at most 1 s; 1,000 GPUs and 10,000 jobs within 2 % of the bound in at most 30 s.

``--instances N`` sets how many random GPUs are compared with brute force (100,000 takes about half
an hour); ``--first N`` where to begin. The comparison draws its jobs from the MISO and ParvaGPU
measurements in the folder BERTH_DATASETS and is left out where that is missing.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from berth.pilot.errors import BerthError
from berth.policies.mig import GpuState, Layout, Running, lookup
from berth.policies.mig.demands import Demand
from berth.policies.mig.layout import enumerate_states
from berth.policies.mig.planner import plan
from berth.policies.mig.planner_gpu import LayoutTable, best_for_gpu

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from mig_bench.comparison import compare  # noqa: E402
from mig_bench.jobs import miso_jobs, parvagpu_jobs  # noqa: E402
from mig_brute_force import best_value, random_problem  # noqa: E402

MODEL = "A100-40GB"


def single(first: int, instances: int) -> None:
    wrong = 0
    planner_s = brute_s = 0.0
    for seed in range(first, first + instances):
        problem = random_problem(seed)
        start = time.perf_counter()
        found = best_for_gpu(
            LayoutTable(problem.groups[0]), problem, [t.count for t in problem.types]
        )
        middle = time.perf_counter()
        wrong += found.value != best_value(problem)
        planner_s += middle - start
        brute_s += time.perf_counter() - middle
    print(
        f"one GPU, {instances} random instances: {instances - wrong} as good as brute force over "
        f"all states (bar: all; {'met' if not wrong else 'MISSED'}); "
        f"{1e3 * planner_s / instances:.2f} ms against {1e3 * brute_s / instances:.1f} ms"
    )


def busy_fleet(size: int, seed: int) -> list[GpuState]:
    """Maximal layouts at random, each slice busy with probability a third."""
    dice = random.Random(seed)  # noqa: S311
    geometry = lookup(MODEL)
    found = []
    for n in range(size):
        layout = dice.choice(enumerate_states(geometry.plain()).maximal)
        busy = tuple(Running(i) for i in layout.instances if dice.random() < 1 / 3)
        found.append(GpuState(f"gpu{n:04d}", geometry, Layout(layout.instances), busy))
    return found


def queue(jobs: list[Demand], count: int, seed: int) -> list[Demand]:
    """``count`` jobs drawn from those measured."""
    dice = random.Random(seed)  # noqa: S311
    drawn = [dice.randrange(len(jobs)) for _ in range(count)]
    return [
        Demand(job.name, job.options, drawn.count(n))
        for n, job in enumerate(jobs)
        if n in set(drawn)
    ]


def fleets(jobs: list[Demand]) -> None:
    """Time and gap of the column model; the solver's library is loaded beforehand."""
    plan(busy_fleet(2, 0), jobs[:1], "jobs", solver="cp-sat")
    print("\nGPUs   jobs   objective           seconds  placed  re-cuts  gap      bar")
    for size, count, objective, limit_s, bar_gap in (
        (128, 500, "jobs", 1.0, 0.0),
        (128, 500, "jobs,throughput", 1.0, 0.0),
        (128, 500, "throughput", 1.0, 0.0),
        (128, 500, "jobs,makespan", None, None),
        (128, 500, "jobs,energy", None, None),
        (1000, 10_000, "jobs", 30.0, 0.02),
        (1000, 10_000, "jobs,throughput", 30.0, 0.02),
        (1000, 10_000, "throughput", 30.0, 0.02),
    ):
        made = plan(
            busy_fleet(size, 1), queue(jobs, count, 2), objective, solver="cp-sat",
            time_limit_s=28.0,
        )  # fmt: skip
        gaps = [r.gap for r in made.reached]
        worst = max((g for g in gaps if g is not None), default=0.0)
        shown = f"{100 * worst:.2g} %" if None not in gaps else "?"
        if limit_s is None or bar_gap is None:
            bar = "-"
        else:
            met = made.seconds <= limit_s and None not in gaps and worst <= bar_gap
            bar = f"{limit_s:.0f} s, {100 * bar_gap:.0f} %: {'met' if met else 'MISSED'}"
        print(
            f"{size:5d} {count:6d}  {objective:18s} {made.seconds:8.2f}  {made.placed:6d}  "
            f"{made.recuts:7d}  {shown:7s}  {bar}"
        )
    quick, best = (
        plan(busy_fleet(128, 1), queue(jobs, 500, 2), "jobs", solver=solver)
        for solver in ("heuristic", "cp-sat")
    )
    print(
        f"  128    500  jobs, no solver    {quick.seconds:8.2f}  {quick.placed:6d}  "
        f"{quick.recuts:7d}  {100 * (1 - quick.placed / best.placed):.2g} % below the best"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--instances", type=int, default=2000)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--only", choices=["single", "fleets", "comparison"])
    chosen = options.parse_args()
    if chosen.only in {None, "single"}:
        single(chosen.first, chosen.instances)
    try:
        training, inference = miso_jobs(), parvagpu_jobs()
    except BerthError as error:
        print(f"fleets and comparison NOT MEASURED: {error.message}; {error.hint}")
        return
    if chosen.only in {None, "fleets"}:
        fleets(training)
    if chosen.only in {None, "comparison"}:
        compare("MISO training jobs on A100-40GB", "A100-40GB", training)
        compare("ParvaGPU inference jobs on A100-80GB", "A100-80GB", inference)


if __name__ == "__main__":
    main()
