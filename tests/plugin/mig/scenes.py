"""Fleets to be re-cut: what is there, what runs on it, what it is to become."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fake_nvml import FakeFleet

from berth.plugin.mig.target import ApplyTarget
from berth.policies.mig import Layout

Look = frozenset[tuple[int, str, int, int]]


def target_of(layouts: Iterable[str]) -> ApplyTarget:
    """These layouts on the GPUs from the first on."""
    return ApplyTarget({str(gpu): Layout.parse(layout) for gpu, layout in enumerate(layouts)})


@dataclass(frozen=True)
class Scene:
    """``old`` and ``new`` are layouts by GPU; ``busy`` are starts with a process on them."""

    name: str
    models: tuple[str, ...]
    old: tuple[str, ...]
    new: tuple[str, ...]
    busy: tuple[tuple[int, int], ...] = ()

    def set_up(self, fleet: FakeFleet) -> Look:
        """Make the fleet; how it looks."""
        fleet.reset(*self.models)
        for gpu, layout in enumerate(self.old):
            fleet.fill(gpu, [(i.profile, i.start) for i in Layout.parse(layout).instances])
        for pid, (gpu, start) in enumerate(self.busy, 4000):
            fleet.start_process(gpu, start, pid)
        return fleet.layout()

    def changes(self, function: str) -> int:
        """How often an apply that nothing disturbs calls an NVML function that changes something.

        Every instance here has one compute instance, destroyed before it and made after it.
        """
        before = [Layout.parse(text).instances for text in self.old]
        after = [Layout.parse(text).instances for text in self.new]
        ours, theirs = (after, before) if "Create" in function else (before, after)
        return sum(len(set(a) - set(b)) for a, b in zip(ours, theirs, strict=True))

    @property
    def all_changes(self) -> int:
        """Destroyed and created instances, with their compute instances."""
        return 2 * (self.changes("Destroy") + self.changes("Create"))

    @property
    def target(self) -> ApplyTarget:
        return target_of(self.new)

    @property
    def looks_new(self) -> Look:
        return frozenset(
            (gpu, i.profile, i.start, 1)
            for gpu, layout in enumerate(self.new)
            for i in Layout.parse(layout).instances
        )


BESIDE_RUNNING = Scene(
    "one instance becomes two beside two running ones",
    ("a100-40",),
    ("1g.5gb@0 1g.5gb@1 2g.10gb@2 3g.20gb@4",),
    ("1g.5gb@0 1g.5gb@1 1g.5gb@2 1g.5gb@3 3g.20gb@4",),
    busy=((0, 1), (0, 4)),
)
TWO_GPUS = Scene(
    "two GPUs of different models",
    ("h100-80", "a30"),
    ("4g.40gb@0 1g.10gb@4 1g.20gb@6", "4g.24gb@0"),
    ("3g.40gb@0 1g.10gb@4 1g.10gb@5 1g.10gb@6", "2g.12gb@0 1g.6gb@2 1g.6gb@3"),
    busy=((0, 4),),
)
FROM_NOTHING = Scene(
    "an empty GPU is filled", ("h200",), ("-",), ("1g.18gb@0 1g.18gb+me@1 2g.35gb@2 3g.71gb@4",)
)
TO_NOTHING = Scene("a GPU is emptied", ("a30",), ("2g.12gb@0 1g.6gb@2 1g.6gb+me@3",), ("-",))
SCENES = (BESIDE_RUNNING, TWO_GPUS, FROM_NOTHING, TO_NOTHING)
