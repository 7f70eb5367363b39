"""The GPU part of ``berth pilot bench`` and ``berth pilot node``."""

from __future__ import annotations

import platform as host

from berth.pilot.errors import UsageError
from berth.pilot.platform import MemoryLevel, Platform
from berth.plugin.first_site.stub import gpu_stub
from berth.predictor.hardware import platforms as known
from berth.predictor.hardware.catalogue import candidates, find, platform_named
from berth.predictor.hardware.device import DataSheet
from berth.predictor.hardware.mig.slices import MARK, derived


def base_platform(gpu_name: str) -> Platform:
    """Return the platform that a driver's name of a GPU means: shipped, the site's own, a MIG slice
    of one of these, or else one made from the GPU's data sheet.

    Raises UsageError for a GPU without a data sheet.
    """
    every = known.load()
    whole, mig, profile = gpu_name.partition(" MIG ")
    try:
        found = platform_named(whole, every)
    except UsageError:
        found = _by_sheet(_device(whole))
    if not mig:
        return found
    part = derived(f"{found.name}{MARK}{profile.strip()}", {**every, found.name: found})
    if part is None:
        raise UsageError(
            f"{gpu_name}: no MIG slice {profile.strip()!r} of {found.name} is known",
            hint=f"berth mig show {found.name} lists them",
        )
    return part


def _device(gpu_name: str) -> DataSheet:
    device = find(gpu_name)
    if device is None or device.memory_bytes is None or device.peaks is None:
        near = ", ".join(d.name for d in candidates(gpu_name))
        raise UsageError(
            f"no data sheet of the GPU {gpu_name!r} is known",
            hint=f"{near + ' lacks figures; ' if near else ''}write a platform file with its "
            "capacities: berth site platform show h100-80gb prints one",
        )
    return device


def _by_sheet(device: DataSheet) -> Platform:
    stub = gpu_stub(device.name, architecture=host.machine(), device=device)
    if device.l2_bytes is None:
        return stub
    dram = stub.signature.memory[-1]
    l2 = MemoryLevel(
        level="l2", capacity_bytes=device.l2_bytes, total_bytes_per_s=dram.total_bytes_per_s
    )
    signature = stub.signature.model_copy(update={"memory": (l2, dram)})
    return stub.model_copy(update={"signature": signature, "description": device.description})
