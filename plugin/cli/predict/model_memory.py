"""Memory, energy and MIG profile of a model graph, for ``berth predict MODEL.onnx``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from berth.pilot.errors import UsageError
from berth.pilot.units import format_bytes
from berth.plugin.cli.output.intervals import as_numbers

if TYPE_CHECKING:
    from berth.pilot.platform import Platform
    from berth.policies.mig.by_memory import ModelProfile
    from berth.predictor.families.slices.physics import ShareModel
    from berth.predictor.footprint.energy import Energy
    from berth.predictor.footprint.footprint import Footprint, Task
    from berth.predictor.graphs.graph import ModelGraph
    from berth.predictor.graphs.roofline import Roofline
    from berth.predictor.hardware.device import Numbers
    from berth.predictor.hardware.roofs import Roof


@dataclass(frozen=True)
class Memories:
    """One model's memory on GPUs and on CPUs, for each task; counted when it is asked for."""

    graph: ModelGraph
    numbers: Numbers | None
    platforms: Mapping[str, Platform]
    _counted: dict[tuple[Task, bool], Footprint] = field(default_factory=dict)

    def by(self, task: Task, *, on_gpu: bool) -> Footprint:
        """Of one task."""
        from berth.predictor.footprint.footprint import count, footprint  # noqa: PLC0415 - numpy

        known = self._counted.get((task, on_gpu))
        if known is None:
            need = count(self.graph, task, on_gpu=on_gpu, numbers=self.numbers)
            known = self._counted[task, on_gpu] = footprint(need)
        return known

    def energy(self, one: Roofline) -> Energy | None:
        """Of one run on a platform; unverified."""
        from berth.predictor.core.prediction import Bound  # noqa: PLC0415
        from berth.predictor.footprint.energy import energy  # noqa: PLC0415

        idle_w = self.platforms[one.roof.platform].idle_power_w
        return energy(one.seconds, one.roof.power_w, idle_w, one.time_share(Bound.LAUNCH))

    def of(self, roof: Roof) -> Footprint:
        """Of inference on a platform."""
        from berth.predictor.footprint.footprint import Task  # noqa: PLC0415

        return self.by(Task.INFERENCE, on_gpu=roof.is_gpu)

    def words(self, roof: Roof) -> str:
        """In a table: middle, interval, of which memory, and whether it fits."""
        from berth.predictor.footprint.footprint import Fits  # noqa: PLC0415

        found = self.of(roof)
        said = {Fits.YES: "", Fits.MAY: ", may not fit", Fits.NO: ", does not fit"}
        which = "GPU" if roof.is_gpu else "host"
        return f"{_span(found)} {which}{said[found.fits(roof.memory_bytes)]}"

    def tasks_on_gpu(self) -> str:
        """What other ways of running it take on a GPU, and what nobody has checked."""
        from berth.predictor.footprint.footprint import Task  # noqa: PLC0415

        ways = ((Task.RECORDED, "while autograd records"), (Task.TRAINING, "training with Adam"))
        said = ", ".join(f"{words} {_span(self.by(task, on_gpu=True))}" for task, words in ways)
        runtime = self.by(Task.INFERENCE, on_gpu=True).runtime
        return (
            f"On a GPU also: {said}.\n"
            f"Memory on GPUs is that of {runtime.framework}; {runtime.limits}."
        )


def _span(found: Footprint) -> str:
    low, mid, high = (
        format_bytes(end) for end in (found.memory.low, found.memory.mid, found.memory.high)
    )
    same = low.split()[1] == high.split()[1]
    return f"{mid} ({low.split()[0] if same else low} to {high})"


@cache
def _shares() -> ShareModel:
    from berth.predictor.families.slices.bundle import verify  # noqa: PLC0415 - pydantic

    return verify().shares


def slices(found: Iterable[Roofline], known: Memories) -> dict[str, ModelProfile]:
    """The MIG profile for the model on each GPU that can be cut, by platform."""
    from berth.policies.mig.by_memory import profile_for  # noqa: PLC0415
    from berth.predictor.core.prediction import Bound  # noqa: PLC0415
    from berth.predictor.hardware.mig.slices import lookup  # noqa: PLC0415

    profiles = {}
    for one in found:
        if one.roof.is_gpu and one.roof.parent is None:
            try:
                geometry = lookup(one.roof.platform)
            except UsageError:
                continue
            waiting = one.time_share(Bound.LAUNCH)
            need = known.of(one.roof).memory
            profiles[one.roof.platform] = profile_for(need, geometry, waiting, _shares())
    return profiles


def memory_json(one: Roofline, known: Memories) -> dict[str, Any]:
    """Keys of one platform's prediction."""
    from berth.predictor.footprint.footprint import Task  # noqa: PLC0415

    found, drawn = known.of(one.roof), known.energy(one)
    return {
        "fits": found.fits(one.roof.memory_bytes).value,
        "host_memory_bytes": None if one.roof.is_gpu else as_numbers(found.memory),
        "gpu_memory_bytes": as_numbers(found.memory) if one.roof.is_gpu else None,
        "memory_counted_bytes": found.need.allocated,
        "memory_framework_bytes": found.overhead_bytes,
        "memory_of": found.runtime.framework,
        "memory_training_bytes": as_numbers(known.by(Task.TRAINING, on_gpu=one.roof.is_gpu).memory),
        "energy_j": None if drawn is None else as_numbers(drawn.joules),
        "energy_idle_share": None if drawn is None else drawn.idle_share,
    }


def slice_json(found: ModelProfile) -> dict[str, Any]:
    """A MIG profile with its reason."""
    return {
        "gpu": found.gpu,
        "profile": None if found.chosen is None else found.chosen.profile.name,
        "reason": found.reason,
        "by_memory_rule": found.by_memory,
        "by_utilisation_rule": found.by_utilisation,
        "slices": [
            {
                "profile": one.profile.name, "fits": one.fits.value,
                "memory_bytes": one.profile.memory_bytes, "slowdown": one.slowdown,
            }
            for one in found.slices
        ],
    }  # fmt: skip
