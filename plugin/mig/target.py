"""Reads the layouts that an apply must reach from a file, and checks them before any GPU is
changed.

The file is a plan of ``berth mig plan``, or a configuration of mig-parted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.documents import read_json
from berth.pilot.errors import DocumentError, UsageError
from berth.plugin.mig import parted
from berth.plugin.mig.errors import PlanRefused
from berth.plugin.mig.inventory import Fleet, GpuRecord
from berth.policies.mig import Layout, lookup
from berth.policies.mig.documents import GpuPlanEntry, PlanDocument


@dataclass(frozen=True, slots=True)
class ApplyTarget:
    """The layouts that an apply must reach, by GPU of this machine (UUID or index)."""

    layouts: Mapping[str, Layout]
    expected: Mapping[str, Layout] | None = None
    """The layouts that the plan started from; None: any present layouts are accepted."""
    source: str = "the plan"


def find(fleet: Fleet, name: str) -> GpuRecord:
    """Return the GPU with that UUID or index. Raises PlanRefused, which lists this machine's
    GPUs."""
    for gpu in fleet:
        if name in (gpu.uuid, str(gpu.index)):
            return gpu
    known = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in fleet)
    raise PlanRefused(f"this machine has no GPU {name}", hint=f"it has {known}")


def checked(target: ApplyTarget, fleet: Fleet) -> dict[str, Layout]:
    """Check the target against this machine's GPUs and return its layouts by UUID.

    Raises PlanRefused where a GPU is unknown or named twice, has MIG off, does not support the
    layout, or has neither that layout nor the one that the plan started from.
    """
    layouts: dict[str, Layout] = {}
    for name, layout in target.layouts.items():
        gpu = find(fleet, name)
        if gpu.uuid in layouts:
            raise PlanRefused(f"{target.source}: GPU {name} is named twice")
        _check_mode(gpu)
        wanted = _possible(gpu, layout)
        if target.expected is not None and gpu.layout != wanted:
            _check_age(target.source, gpu, target.expected.get(name, Layout()))
        layouts[gpu.uuid] = wanted
    return layouts


def _check_mode(gpu: GpuRecord) -> None:
    if not gpu.capable:
        raise PlanRefused(f"GPU {gpu.index} ({gpu.name}) cannot do MIG")
    if not gpu.enabled:
        pending = "; it is asked for and needs a reset of the GPU" if gpu.pending else ""
        raise PlanRefused(
            f"MIG is off on GPU {gpu.index} ({gpu.name}){pending}",
            hint="--enable-mig with --yes switches it on; Berth leaves the mode alone otherwise",
        )


def _check_age(source: str, gpu: GpuRecord, expected: Layout) -> None:
    if gpu.geometry is None or gpu.layout != expected.spelled(gpu.geometry):
        raise PlanRefused(
            f"{source} is older than the fleet: GPU {gpu.index} was {expected} then "
            f"and is {gpu.layout} now",
            hint="plan again: berth mig plan",
        )


def _possible(gpu: GpuRecord, layout: Layout) -> Layout:
    """Return the layout in the driver's names of profiles. Raises PlanRefused where the GPU cannot
    have it."""
    if gpu.geometry is None:
        raise PlanRefused(f"GPU {gpu.index} ({gpu.name}) cannot be cut now")
    try:
        return layout.spelled(gpu.geometry).check(gpu.geometry)
    except UsageError as error:
        raise PlanRefused(error.message, hint=error.hint) from None


def read_target(
    path: Path, fleet: Fleet, *, selected: str | None, node: str, around_busy: bool = True
) -> ApplyTarget:
    """Return the target that a file describes for this machine.

    ``selected``: the configuration's name, required where a mig-parted file has several; ``node``:
    this machine's name in plans; ``around_busy=False``: new instances of a mig-parted
    configuration may overlap instances that are in use. Raises UsageError.
    """
    if path.suffix in (".yaml", ".yml"):
        return _from_parted(parted.read(path), str(path), fleet, selected, around_busy)
    if selected is not None:
        raise UsageError("--selected-config is for mig-parted files (.yaml)")
    return _from_plan(read_json(path, PlanDocument), path, node)


def _from_plan(plan: PlanDocument, path: Path, node: str) -> ApplyTarget:
    mine = {_name(entry): entry for entry in plan.gpus if _node(entry) in (None, node)}
    if not mine:
        nodes = ", ".join(sorted({_node(entry) or "" for entry in plan.gpus}))
        raise PlanRefused(f"{path} plans no GPU of {node}", hint=f"it is about {nodes}")
    return ApplyTarget(
        layouts={name: _layout(entry.after, path) for name, entry in mine.items()},
        expected={name: _layout(entry.before, path) for name, entry in mine.items()},
        source=str(path),
    )


def _layout(words: Iterable[str], path: Path) -> Layout:
    try:
        return Layout.parse(" ".join(words))
    except UsageError as error:
        raise DocumentError(path, error.message, key="gpus", hint=error.hint) from None


def _node(entry: GpuPlanEntry) -> str | None:
    node, slash, _ = entry.name.rpartition("/")
    return node if slash else None


def _name(entry: GpuPlanEntry) -> str:
    return entry.uuid or entry.name.rpartition("/")[2]


def _from_parted(
    config: parted.Config, source: str, fleet: Fleet, selected: str | None, around_busy: bool
) -> ApplyTarget:
    if selected is None and len(config.configs) != 1:
        raise PlanRefused(
            f"{source} has {len(config.configs)} configurations",
            hint=f"choose with --selected-config: {', '.join(config.configs)}",
        )
    entries = parted.named(config, selected or next(iter(config.configs)), source)
    layouts: dict[str, Layout] = {}
    for gpu in fleet:
        mine = [entry for entry in entries if entry.covers(gpu.index, (gpu.pci_id,))]
        if len(mine) > 1:
            raise PlanRefused(f"{source} describes GPU {gpu.index} twice")
        if mine and _is_to_be_cut(mine[0], gpu, source):
            layouts[gpu.uuid] = _arranged(mine[0], gpu, around_busy)
    _check_devices(entries, fleet, source)
    return ApplyTarget(layouts, source=source)


def _is_to_be_cut(entry: parted.MigConfigSpec, gpu: GpuRecord, source: str) -> bool:
    if entry.mig_enabled:
        return True
    if gpu.enabled:
        raise PlanRefused(
            f"{source} wants MIG off on GPU {gpu.index}, where it is on",
            hint="Berth does not switch the mode off: nvidia-smi -mig 0",
        )
    return False


def _arranged(entry: parted.MigConfigSpec, gpu: GpuRecord, around_busy: bool) -> Layout:
    """Choose positions for a mig-parted entry's slices, since mig-parted names none.

    The layout with the fewest changes is chosen, and busy instances keep their positions.
    """
    from berth.policies.mig.layout import arrange  # noqa: PLC0415 (enumerates layouts)

    state = gpu.state()
    try:
        # Where MIG is off the driver reports no geometry, so Berth's own table is used.
        geometry = lookup(gpu.name) if state is None else state.geometry
        busy = state.busy if state is not None and around_busy else None
        return arrange(geometry, entry.mig_devices, current=gpu.layout, busy=busy)
    except UsageError as error:
        raise PlanRefused(f"GPU {gpu.index}: {error.message}", hint=error.hint) from None


def _check_devices(entries: tuple[parted.MigConfigSpec, ...], fleet: Fleet, source: str) -> None:
    known = {gpu.index for gpu in fleet}
    for entry in entries:
        unknown = sorted(set(entry.devices or ()) - known)
        if unknown:
            raise PlanRefused(f"{source} names device {unknown[0]}, which this machine lacks")
