"""Finds which of a site's platforms this machine is, by its processor and number of cores."""

from __future__ import annotations

from collections.abc import Mapping

from berth.pilot.errors import UsageError
from berth.pilot.host import cpu_model, topology
from berth.pilot.platform import Platform, PlatformKind
from berth.predictor.hardware.processor_names import may_be_same_processor


def platform_of_this_machine(platforms: Mapping[str, Platform]) -> str | None:
    """Return the name of the CPU platform with this machine's processor and number of cores.

    Where no platform has as many cores, as in a job that may use only some of them, the processor
    alone decides. None: no platform names this processor. Raises UsageError where several platforms
    have it.
    """
    model = cpu_model()
    nodes = [platform for platform in platforms.values() if platform.kind is PlatformKind.CPU]
    same = [p for p in nodes if p.processor and may_be_same_processor(p.processor, model)]
    whole = [platform for platform in same if platform.cores == topology().cores] or same
    if len(whole) > 1:
        names = ", ".join(sorted(platform.name for platform in whole))
        raise UsageError(
            f"several platforms of the site have this machine's processor: {names}",
            hint="say which of them this is: --platform NAME",
        )
    return whole[0].name if whole else None
