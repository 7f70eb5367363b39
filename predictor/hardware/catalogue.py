"""The catalogue of devices, and finding one by any name that people, drivers and data sets use.

A name is looked up without case, punctuation and the vendor's name. One that several devices have
(``H100``) is refused with their names, never resolved silently.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform, PlatformKind
from berth.predictor.hardware import platforms
from berth.predictor.hardware.device import Device

FOLDER = Path(__file__).with_name("devices")
_VENDORS = re.compile(r"^(nvidia|amd|intel)\b")


@cache
def devices() -> Mapping[str, Device]:
    """Return all devices by canonical name."""
    # Shipped files, which tests check: without the checks of `read_json`, five times as fast.
    files = (path.read_bytes() for path in sorted(FOLDER.glob("*.json")))
    sheets = [Device.model_validate_json(raw, strict=True) for raw in files]
    return {device.name: device for device in sheets}


def simplified(name: str) -> str:
    """Return a name as it is compared: lower case, letters and digits alone, without the vendor."""
    words = re.sub(r"[^a-z0-9]+", " ", name.lower()).strip()
    return _VENDORS.sub("", words).replace(" ", "") or words


@cache
def _by_name() -> Mapping[str, tuple[Device, ...]]:
    names: dict[str, dict[str, Device]] = {}
    for device in devices().values():
        for name in (device.name, *device.aliases):
            names.setdefault(simplified(name), {})[device.name] = device
    return {name: tuple(of.values()) for name, of in names.items()}


def candidates(name: str) -> tuple[Device, ...]:
    """Return every device that has this name."""
    return _by_name().get(simplified(name), ())


def find(name: str) -> Device | None:
    """Return the device of this name, if any. Raises UsageError where several have it."""
    matching = candidates(name)
    if len(matching) > 1:
        names = ", ".join(device.name for device in matching)
        raise UsageError(f"{name!r} may be several devices", hint=f"one of {names}")
    return matching[0] if matching else None


def get(name: str) -> Device:
    """Return the device of this name. Raises UsageError that names the nearest or the several."""
    device = find(name)
    if device is None:
        near = nearest(name)
        raise UsageError(
            f"no accelerator is called {name!r}",
            hint=f"did you mean {' or '.join(near)}?" if near
            else "`berth site platform list --devices` shows them",
        )  # fmt: skip
    return device


def nearest(name: str) -> tuple[str, ...]:
    """Return canonical names of at most three devices with a name like this one."""
    near = difflib.get_close_matches(simplified(name), _by_name(), n=3)
    return tuple(
        dict.fromkeys(device.name for near_name in near for device in _by_name()[near_name])
    )[:3]


def platform_named(name: str, known: Mapping[str, Platform]) -> Platform:
    """Return a platform by its name, or the only one of the device of that name.

    Raises UsageError that names the nearest.
    """
    wanted = simplified(name)
    same = [p for p in known.values() if simplified(p.name) == wanted]
    if name not in known and not same and (device := find(name)) is not None:
        same = [p for p in known.values() if p.kind is PlatformKind.GPU and device_of(p) is device]
    return same[0] if len(same) == 1 else platforms.get(name, known)


def device_of(platform: Platform) -> Device | None:
    """Return the device that a platform names or is called like; None: not known.

    Raises UsageError where its ``accelerator`` is no device's name, or several devices'.
    """
    shipped = platforms.shipped().get(platform.name)
    named = platform.accelerator or (shipped.accelerator if shipped else None)
    if named is None:
        matching = candidates(platform.name) if platform.is_gpu else ()
        return matching[0] if len(matching) == 1 else None
    try:
        return get(named)
    except UsageError as error:
        raise UsageError(f"platform {platform.name}: {error.message}", hint=error.hint) from None
