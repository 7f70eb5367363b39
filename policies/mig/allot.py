"""From counts to names: which job takes which instance of which GPU, and nothing cut needlessly.

The planners decide how many slots of each kind are offered and taken. Here each GPU gets its
target layout and its jobs; then a created instance that nobody uses is dropped again, and an idle
instance that need not go is kept.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from berth.policies.mig.layout import GpuState, Layout
from berth.policies.mig.offers import Kind, Offer, Slot, Standing
from berth.policies.mig.plan import GpuPlan, Placement
from berth.policies.mig.problem import Group, Problem


@dataclass(frozen=True, slots=True)
class Cut:
    """One GPU of a group with the offer chosen for it."""

    group: Group
    state: GpuState
    offer: Offer


def allot(
    problem: Problem, cuts: Sequence[Cut], taken: Sequence[tuple[int, Kind]]
) -> tuple[GpuPlan, ...]:
    """Each GPU's plan. ``taken`` names type of job and kind of slot, one entry a job.

    Slots that exist already go first, so that as few as possible are made.
    """
    queues: dict[Kind, deque[int]] = defaultdict(deque)
    for type_, kind in sorted(taken):
        queues[kind].append(type_)
    names = [deque(t.names()) for t in problem.types]
    slots = sorted(
        ((slot.created, n, slot) for n, cut in enumerate(cuts) for slot in _slots(cut)),
        key=lambda item: (item[0], item[1], item[2].instance),
    )
    given: dict[int, list[Placement]] = defaultdict(list)
    for _, n, slot in slots:
        stand = cuts[n].group.stand
        queue = queues[Kind(stand.geometry.gpu, slot.instance.profile, slot.ready_ms)]
        if queue:
            type_ = queue.popleft()
            given[n].append(_placement(problem, stand, slot, type_, names[type_].popleft()))
    return tuple(_trimmed(cut, tuple(sorted(given[n], key=lambda p: p.instance)))
                 for n, cut in enumerate(cuts))  # fmt: skip


def _slots(cut: Cut) -> list[Slot]:
    """The slots of the offer; of a frozen GPU that offers a part, only that part."""
    left = dict(cut.offer.counts)
    found = []
    for slot in cut.group.stand.slots(cut.offer.layout):
        kind = Kind(cut.group.stand.geometry.gpu, slot.instance.profile, slot.ready_ms)
        if left.get(kind, 0) > 0:
            left[kind] -= 1
            found.append(slot)
    return found


def _placement(problem: Problem, stand: Standing, slot: Slot, type_: int, name: str) -> Placement:
    option = problem.types[type_].members[0].on(stand.geometry, slot.instance.profile)
    assert option is not None  # noqa: S101 - the slot was chosen because there is one
    ready_s = slot.ready_ms / 1000
    return Placement(
        job=name,
        instance=slot.instance,
        ready_s=ready_s,
        finish_s=None if option.runtime_s is None else ready_s + option.runtime_s,
        throughput=option.throughput,
        energy_j=option.energy_j,
    )


def _trimmed(cut: Cut, placements: tuple[Placement, ...]) -> GpuPlan:
    geometry = cut.group.stand.geometry
    before = cut.state.layout
    needed = {p.instance for p in placements}
    target = Layout(
        tuple(i for i in cut.offer.layout.instances if i in needed or i in before.instances)
    )
    for instance in before.instances:
        if instance not in target.instances:
            wider = target.plus(instance)
            if wider.problem(geometry) is None:
                target = wider
    return GpuPlan(cut.state, target, placements)
