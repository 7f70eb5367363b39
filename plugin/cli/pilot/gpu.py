"""The GPU part of ``berth pilot bench`` and ``berth pilot node``."""

from __future__ import annotations

import platform as host

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.predictor.hardware import platforms as known
from berth.predictor.hardware.by_sheet import place_named
from berth.predictor.hardware.mig.slices import MARK, derived


def base_platform(gpu_name: str) -> Platform:
    """Return the platform that a driver's name of a GPU means: shipped, the site's own, a MIG slice
    of one of these, or else one made from the GPU's data sheet.

    Raises UsageError for a GPU without a data sheet.
    """
    every = known.load()
    whole, mig, profile = gpu_name.partition(" MIG ")
    found = place_named(whole, every).model_copy(update={"architecture": host.machine()})
    if not mig:
        return found
    part = derived(f"{found.name}{MARK}{profile.strip()}", {**every, found.name: found})
    if part is None:
        raise UsageError(
            f"{gpu_name}: no MIG slice {profile.strip()!r} of {found.name} is known",
            hint=f"berth mig show {found.name} lists them",
        )
    return part
