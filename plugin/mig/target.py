"""What an apply is to reach, checked against the GPUs before anything is touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from berth.pilot.errors import UsageError
from berth.plugin.mig.errors import PlanRefused
from berth.plugin.mig.inventory import Fleet, GpuRecord
from berth.policies.mig import Layout


@dataclass(frozen=True, slots=True)
class Target:
    """Layouts to reach by GPU of this machine: UUID or index."""

    layouts: Mapping[str, Layout]
    expected: Mapping[str, Layout] | None = None
    """The layouts that the plan was made from; None: whatever there is."""
    source: str = "the plan"


def find(fleet: Fleet, name: str) -> GpuRecord:
    """The GPU of that name. Raises PlanRefused naming those there are."""
    for gpu in fleet:
        if name in (gpu.uuid, str(gpu.index)):
            return gpu
    known = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in fleet)
    raise PlanRefused(f"this machine has no GPU {name}", hint=f"it has {known}")


def checked(target: Target, fleet: Fleet) -> dict[str, Layout]:
    """The target's layouts by UUID.

    Raises PlanRefused where a GPU is unknown or named twice, has MIG off, cannot have the layout,
    or no longer stands as the plan assumed.
    """
    found: dict[str, Layout] = {}
    for name, layout in target.layouts.items():
        gpu = find(fleet, name)
        if gpu.uuid in found:
            raise PlanRefused(f"{target.source}: GPU {name} is named twice")
        _check_mode(gpu)
        if target.expected is not None:
            _check_age(target.source, gpu, target.expected.get(name, Layout()))
        _check_layout(gpu, layout)
        found[gpu.uuid] = layout
    return found


def _check_mode(gpu: GpuRecord) -> None:
    if not gpu.capable:
        raise PlanRefused(f"GPU {gpu.index} ({gpu.name}) cannot do MIG")
    if not gpu.enabled:
        pending = "; it is asked for and needs a reset of the GPU" if gpu.pending else ""
        raise PlanRefused(
            f"MIG is off on GPU {gpu.index} ({gpu.name}){pending}",
            hint="Berth changes the mode only when told to: --enable-mig",
        )


def _check_age(source: str, gpu: GpuRecord, expected: Layout) -> None:
    if gpu.layout != expected:
        raise PlanRefused(
            f"{source} is older than the fleet: GPU {gpu.index} was {expected} then "
            f"and is {gpu.layout} now",
            hint="plan again: berth mig plan",
        )


def _check_layout(gpu: GpuRecord, layout: Layout) -> None:
    if gpu.geometry is None:
        raise PlanRefused(f"GPU {gpu.index} ({gpu.name}) cannot be cut now")
    try:
        layout.check(gpu.geometry)
    except UsageError as error:
        raise PlanRefused(error.message, hint=error.hint) from None
