"""Ways to cut a fleet, run over the same stream of jobs.

Jobs arrive at random and wait in line; running ones are never moved or stopped. A re-cut GPU can
use its new slices after RECUT_S. All ways give jobs to slices by Berth's planner with the layouts
as they are, so that only the cutting differs.

- *node-wide*: as mig-parted is used: one of its shipped layouts for all GPUs of a node, changed
  only when the whole node is idle; a node is drained for it when the first in line fits nowhere;
- *static*: the set of layouts that is best on a stream of its own (mig-parted's, a plan for the
  whole mix, half whole and half balanced), never changed;
- *MISO*: job after job in line to the least loaded GPU that can take it, with the layout that is
  fastest for it there (MISO's greedy, without its moving of running jobs);
- *Berth*: a plan for the fleet and the queue at each arrival and end.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from berth.policies.mig import Geometry, GpuInstance, GpuState, Layout, Running, lookup
from berth.policies.mig.demands import Demand
from berth.policies.mig.layout import arrange
from berth.policies.mig.plan import GpuPlan, MigPlan
from berth.policies.mig.planner import plan

NODES, GPUS_PER_NODE = 2, 4
JOBS, LOAD = 200, 2.0
RECUT_S = 10.0
LOOK_AHEAD = 40
SEEDS = (1, 2, 3)
TRIAL_SEED = 99
"""The stream on which the static layouts are chosen."""

Way = Callable[["Harbour"], Sequence[GpuPlan]]
Maker = Callable[[Sequence[Demand]], tuple[Way, dict[str, Layout]]]
"""From the whole mix of jobs: a way and the layouts that it begins with."""


@dataclass
class Harbour:
    """The fleet, the line of waiting jobs, and what was counted."""

    geometry: Geometry
    layouts: dict[str, Layout]
    now_s: float = 0.0
    waiting: list[Demand] = field(default_factory=list)
    running: dict[tuple[str, GpuInstance], float] = field(default_factory=dict)
    recuts: int = 0
    placed: int = 0
    wasted: float = 0.0
    """Compute slices times seconds that stood idle while somebody waited."""
    waits_s: list[float] = field(default_factory=list)

    def states(self) -> list[GpuState]:
        """The fleet for the planner."""
        return [
            GpuState(
                gpu, self.geometry, layout,
                tuple(Running(i, self.running[gpu, i]) for i in layout.instances
                      if (gpu, i) in self.running),
            )
            for gpu, layout in self.layouts.items()
        ]  # fmt: skip

    def in_line(self) -> list[Demand]:
        """The first jobs in line."""
        return self.waiting[:LOOK_AHEAD]


def compare(title: str, model: str, jobs: Sequence[Demand]) -> None:
    """Print the table for one collection of jobs."""
    geometry = lookup(model)
    ways: dict[str, Maker] = {
        "node-wide (mig-parted)": lambda _: _node_wide(geometry),
        "static best layouts": lambda _: _static(geometry, jobs),
        "MISO's greedy": lambda _: (_miso, _empty()),
        "Berth: throughput": lambda _: (_berth("throughput"), _empty()),
        "Berth: jobs,throughput": lambda _: (_berth("jobs,throughput"), _empty()),
    }
    print(f"\n{title}: {NODES * GPUS_PER_NODE} GPUs, {JOBS} jobs, mean of {len(SEEDS)} streams")
    print(f"{'':24s} {'placed by':>9s} {'makespan':>9s} {'mean time':>10s} {'wasted':>8s} "
          f"{'re-cuts':>8s}")  # fmt: skip
    print(f"{'':24s} {'last arr.':>9s} {'h':>9s} {'in system':>10s} {'slices':>8s} {'':>8s}")
    for name, make in ways.items():
        rows = [_run(geometry, jobs, seed, make) for seed in SEEDS]
        placed, end, mean, wasted, recuts = (sum(c) / len(c) for c in zip(*rows, strict=True))
        print(f"{name:24s} {placed:9.0f} {end / 3600:9.2f} {mean:8.0f} s {100 * wasted:6.1f} % "
              f"{recuts:8.0f}")  # fmt: skip


def _run(
    geometry: Geometry,
    jobs: Sequence[Demand],
    seed: int,
    make: Maker,
) -> tuple[float, float, float, float, float]:
    dice = random.Random(seed)  # noqa: S311
    drawn = [replace(dice.choice(list(jobs)), name=f"job{n}") for n in range(JOBS)]
    rate = LOAD * NODES * GPUS_PER_NODE / _service_s(drawn)
    arrivals, clock = [], 0.0
    for job in drawn:
        clock += dice.expovariate(rate)
        arrivals.append((clock, job.name))
    by_name = {job.name: job for job in drawn}
    came = {name: at for at, name in arrivals}
    way, layouts = make(drawn)
    harbour = Harbour(geometry, layouts)
    ends: list[tuple[float, str, GpuInstance, str]] = []
    left = list(arrivals)
    times_s: list[float] = []
    by_last_arrival = 0
    while left or ends or harbour.waiting:
        coming = [at for at, _ in left[:1]] + [e[0] for e in ends[:1]]
        assert coming, "somebody waits for a slice that never comes"
        now = min(coming)
        _count_waste(harbour, now)
        harbour.now_s = now
        while left and left[0][0] <= now:
            harbour.waiting.append(by_name[left.pop(0)[1]])
        while ends and ends[0][0] <= now:
            end, gpu, instance, name = heapq.heappop(ends)
            del harbour.running[gpu, instance]
            times_s.append(end - came[name])
        if harbour.waiting:
            for gpu_plan in way(harbour):
                _carry_out(harbour, gpu_plan, ends)
        if left:
            by_last_arrival = harbour.placed
    slices = geometry.compute_slices * NODES * GPUS_PER_NODE * harbour.now_s
    return (
        float(by_last_arrival), harbour.now_s, sum(times_s) / len(times_s),
        harbour.wasted / slices, float(harbour.recuts),
    )  # fmt: skip


def _service_s(jobs: Sequence[Demand]) -> float:
    """GPU seconds that a job takes on the slice where it is most efficient, on average."""
    best = [min((o.runtime_s or 0.0) * int(o.profile[0]) / 7 for o in job.options) for job in jobs]
    return sum(best) / len(best)


def _count_waste(harbour: Harbour, now: float) -> None:
    if harbour.waiting:
        used = sum(int(i.profile[0]) for _, i in harbour.running)
        idle = harbour.geometry.compute_slices * len(harbour.layouts) - used
        harbour.wasted += idle * (now - harbour.now_s)


def _carry_out(
    harbour: Harbour, made: GpuPlan, ends: list[tuple[float, str, GpuInstance, str]]
) -> None:
    gpu = made.state.gpu
    created = set(made.created)
    harbour.recuts += made.recuts
    harbour.layouts[gpu] = made.target
    for p in made.placements:
        assert p.finish_s is not None
        end = harbour.now_s + p.finish_s + (RECUT_S if p.instance in created else 0.0)
        harbour.running[gpu, p.instance] = end
        heapq.heappush(ends, (end, gpu, p.instance, p.job))
        harbour.waiting = [job for job in harbour.waiting if job.name != p.job]
        harbour.placed += 1


def _names() -> list[str]:
    return [f"n{n}/{i}" for n in range(NODES) for i in range(GPUS_PER_NODE)]


def _empty() -> dict[str, Layout]:
    return dict.fromkeys(_names(), Layout())


def _berth(objective: str) -> Way:
    return lambda harbour: (
        plan(harbour.states(), harbour.in_line(), objective, time_limit_s=5.0).gpus
    )


def _given_away(harbour: Harbour, states: Sequence[GpuState]) -> MigPlan:
    return plan(states, harbour.in_line(), "jobs,throughput", recut=False)


def _static(geometry: Geometry, jobs: Sequence[Demand]) -> tuple[Way, dict[str, Layout]]:
    """The best fixed layouts: candidates are tried on a stream of their own, the best stays."""
    if geometry.gpu not in _BEST:
        fixed = [dict.fromkeys(_names(), layout) for layout in _shipped(geometry)]
        made = plan([GpuState(name, geometry) for name in _names()], jobs, "throughput").gpus
        fixed.append({g.state.gpu: g.target for g in made})
        whole = Layout.of((geometry.profiles[-1].name, 0))
        # Half the node whole, half balanced; and every kind of job must find some place.
        fixed.append({n: fixed[-2][n] if i % 2 else whole for i, n in enumerate(_names())})
        fixed = [f for f in fixed if _all_fit(jobs, f)]
        tried = [
            _run(geometry, jobs, TRIAL_SEED, lambda _, f=f: (_as_it_is, dict(f)))[2]  # type: ignore[misc]
            for f in fixed
        ]
        _BEST[geometry.gpu] = fixed[tried.index(min(tried))]
    return _as_it_is, dict(_BEST[geometry.gpu])


_BEST: dict[str, dict[str, Layout]] = {}


def _as_it_is(harbour: Harbour) -> Sequence[GpuPlan]:
    return _given_away(harbour, harbour.states()).gpus


def _all_fit(jobs: Sequence[Demand], layouts: dict[str, Layout]) -> bool:
    there = {i.profile for layout in layouts.values() for i in layout.instances}
    return all(any(o.profile in there for o in job.options) for job in jobs)


def _miso(harbour: Harbour) -> Sequence[GpuPlan]:
    found: list[GpuPlan] = []
    taken: set[str] = set()
    for job in harbour.in_line():
        states = [s for s in harbour.states() if s.gpu not in taken]
        for state in sorted(states, key=lambda s: (len(s.running), s.gpu)):
            made = plan([state], [job], "jobs,throughput")
            if made.placed:
                found.append(made.gpus[0])
                taken.add(state.gpu)
                break
    return found


def _node_wide(geometry: Geometry) -> tuple[Way, dict[str, Layout]]:
    shipped = _shipped(geometry)
    draining: set[str] = set()

    def way(harbour: Harbour) -> Sequence[GpuPlan]:
        states = harbour.states()
        nodes: dict[str, list[GpuState]] = {}
        for state in states:
            nodes.setdefault(state.gpu.split("/")[0], []).append(state)
        plans = (
            list(_given_away(harbour, [s for s in states if _node(s) not in draining]).gpus)
            if len(draining) < len(nodes)
            else []
        )
        taken = {p.job for g in plans for p in g.placements}
        left = [job for job in harbour.in_line() if job.name not in taken]
        for node, members in nodes.items():
            idle = not any(s.running for s in members)
            starts = any(g.placements for g in plans if _node(g.state) == node)
            if idle and not starts and left:
                draining.discard(node)
                best = max(
                    (_tried(members, layout, left) for layout in shipped),
                    key=lambda made: sum(p.throughput or 0.0 for g in made for p in g.placements),
                )
                plans = [g for g in plans if _node(g.state) != node] + best
                taken = {p.job for g in best for p in g.placements}
                left = [job for job in left if job.name not in taken]
        if left and not draining and not _fits(left[0], harbour):
            draining.add(min(nodes, key=lambda n: max(
                (harbour.running[s.gpu, r.instance] for s in nodes[n] for r in s.running),
                default=0.0)))  # fmt: skip
        return plans

    return way, dict.fromkeys(_names(), shipped[-1])


def _shipped(geometry: Geometry) -> list[Layout]:
    """mig-parted's own: all of one profile, and balanced (2 x 1g, 2g, 3g)."""
    plain = geometry.plain().profiles
    single = [p for p in plain if (p.compute_slices, p.memory_slices) != (1, 2)]
    small, two, three = (p.name for p in single[:3])
    return [
        *(arrange(geometry, {p.name: p.max_instances}) for p in single),
        arrange(geometry, {small: 2, two: 1, three: 1}),
    ]


def _node(state: GpuState) -> str:
    return state.gpu.split("/")[0]


def _tried(members: Sequence[GpuState], layout: Layout, jobs: Sequence[Demand]) -> list[GpuPlan]:
    """The node with this layout on all its GPUs; re-cuts counted from what they have."""
    changed = [replace(s, layout=layout) for s in members]
    made = plan(changed, jobs, "throughput", recut=False)
    before = {s.gpu: s for s in members}
    return [replace(g, state=before[g.state.gpu]) for g in made.gpus]


def _fits(job: Demand, harbour: Harbour) -> bool:
    there = {i.profile for layout in harbour.layouts.values() for i in layout.instances}
    return any(o.profile in there for o in job.options)
