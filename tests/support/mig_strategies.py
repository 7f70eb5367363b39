"""Random GPUs for the property tests: any model, any reachable layout, some of it busy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from hypothesis import strategies as st

from berth.policies.mig import Geometry, GpuState, Layout, Running, known_gpus, lookup
from berth.policies.mig.demands import Demand, SliceOption
from berth.policies.mig.layout import enumerate_states
from berth.policies.mig.plan import MigPlan, Step, StepAction, steps

geometries: st.SearchStrategy[Geometry] = st.sampled_from([lookup(n) for n in known_gpus()])


def layouts(geometry: Geometry) -> st.SearchStrategy[Layout]:
    """Any legal layout, media variants included."""
    return st.sampled_from(enumerate_states(geometry).layouts)


@st.composite
def gpu_states(draw: st.DrawFn, name: str = "gpu", models: tuple[str, ...] = ()) -> GpuState:
    """A GPU with some instances busy, some of them with a known end."""
    geometry = draw(st.sampled_from([lookup(m) for m in models]) if models else geometries)
    layout = draw(layouts(geometry))
    busy = draw(st.sets(st.sampled_from(layout.instances or (None,))))
    ends = st.one_of(st.none(), st.integers(1, 100))
    running = tuple(Running(i, draw(ends)) for i in sorted(b for b in busy if b))
    return GpuState(name, geometry, layout, running)


@st.composite
def demands(draw: st.DrawFn, geometry: Geometry, most: int = 4) -> list[Demand]:
    """Up to ``most`` types of jobs for this GPU."""
    names = [p.name for p in geometry.profiles]
    number = st.integers(0, 9)
    found = []
    for n in range(draw(st.integers(1, most))):
        allowed = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        options = tuple(
            SliceOption(a, None, draw(number), draw(st.integers(1, 50)), draw(number))
            for a in allowed
        )
        found.append(Demand(f"job{n}", options, draw(st.integers(1, 3)), draw(st.integers(0, 1))))
    return found


def replay(start: Layout, done: Iterable[Step]) -> tuple[Layout, ...]:
    """The layouts after each step, the first being the start."""
    layouts = [start]
    for step in done:
        last = layouts[-1]
        change = last.minus if step.action is StepAction.DESTROY else last.plus
        layouts.append(change(step.instance))
    return tuple(layouts)


def check(
    planned: MigPlan, fleet: Sequence[GpuState], jobs: Sequence[Demand], horizon_s: float = 0.0
) -> None:
    """What every plan must hold, whoever made it."""
    placed: Counter[str] = Counter()
    allowed = {d.name: {o.profile for o in d.options} for d in jobs}
    for gpu in planned.gpus:
        stay = {
            r.instance for r in gpu.state.running if r.free_at_s is None or r.free_at_s > horizon_s
        }
        assert gpu.target.problem(gpu.state.geometry) is None
        assert stay <= set(gpu.target.instances)
        given_away = [p.instance for p in gpu.placements]
        assert len(set(given_away)) == len(given_away)
        assert set(given_away) <= set(gpu.target.instances)
        assert not stay & set(given_away)
        assert all(p.instance.profile in allowed[p.job] for p in gpu.placements)
        assert replay(gpu.state.layout, steps([gpu]))[-1] == gpu.target
        placed.update(p.job for p in gpu.placements)
    left = Counter({d.name: 0 for d in jobs})
    for u in planned.unplaced:
        left[u.job] += u.count
    assert all(placed[d.name] + left[d.name] == d.count for d in jobs)
    assert sorted(g.state.gpu for g in planned.gpus) == sorted(s.gpu for s in fleet)
