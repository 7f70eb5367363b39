"""From the layout that is to the layout that is wanted: what to destroy and create, in order.

Each create stands right behind the destroys that make its room, and what needs no waiting goes
first: a failure or a long wait then leaves as much as possible in use. At every point the layout
is legal. Whether an instance really is idle is checked again by whoever carries a step out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from berth.policies.mig.layout import Instance, Layout
from berth.policies.mig.offers import exclude
from berth.policies.mig.plan import GpuPlan


class Action(StrEnum):
    """What a step does."""

    DESTROY = "destroy"
    CREATE = "create"


@dataclass(frozen=True, slots=True)
class Step:
    """One change to one GPU; steps of one GPU are done in their order."""

    gpu: str
    action: Action
    instance: Instance
    after_end_of: tuple[Instance, ...] = ()
    """Running instances whose work must have ended first."""

    def __str__(self) -> str:
        wait = ", ".join(map(str, self.after_end_of))
        return f"{self.gpu}: {self.action.value} {self.instance}" + (
            f" after the end of {wait}" if wait else ""
        )


def steps(plans: Iterable[GpuPlan]) -> tuple[Step, ...]:
    """All steps, GPU by GPU; those that can be done now before those that wait."""
    now: list[Step] = []
    later: list[Step] = []
    for plan in plans:
        mine = of_gpu(plan)
        cut = next((n for n, s in enumerate(mine) if s.after_end_of), len(mine))
        now.extend(mine[:cut])
        later.extend(mine[cut:])
    return (*now, *later)


def of_gpu(plan: GpuPlan) -> tuple[Step, ...]:
    """The steps of one GPU; every layout on the way is legal."""
    geometry = plan.state.geometry
    busy = {r.instance for r in plan.state.running}
    layout = plan.state.layout
    going = list(plan.destroyed)
    found: list[Step] = []

    def destroy(instance: Instance) -> None:
        nonlocal layout
        going.remove(instance)
        layout = layout.minus(instance)
        wait = (instance,) if instance in busy else ()
        found.append(Step(plan.state.gpu, Action.DESTROY, instance, wait))

    def in_the_way(instance: Instance) -> list[Instance]:
        """What must go first: the busy before the idle, which serve until the wait is over."""
        found = [old for old in going if exclude(geometry, old, instance)]
        return sorted(found, key=lambda old: (old not in busy, old))

    def patience(instance: Instance) -> tuple[int, int, int]:
        size = geometry.profile(instance.profile).memory_slices
        return (sum(old in busy for old in in_the_way(instance)), -size, instance.start)

    for instance in sorted(plan.created, key=patience):
        for old in in_the_way(instance):
            destroy(old)
        while layout.plus(instance).problem(geometry) and going:
            destroy(min(going, key=lambda old: (old in busy, old)))
        layout = layout.plus(instance)
        found.append(Step(plan.state.gpu, Action.CREATE, instance))
    for old in list(going):
        destroy(old)
    return tuple(found)


def replay(start: Layout, done: Iterable[Step]) -> tuple[Layout, ...]:
    """The layouts after each step, the first being the start."""
    layouts = [start]
    for step in done:
        last = layouts[-1]
        change = last.minus if step.action is Action.DESTROY else last.plus
        layouts.append(change(step.instance))
    return tuple(layouts)
