"""Find a device by any name that people, drivers and data sets use for it.

Case, punctuation and the vendor's name are ignored. A name that several devices have (``H100``)
raises UsageError that lists them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform, PlatformKind
from berth.predictor.hardware import platforms
from berth.predictor.hardware.device import DataSheet

FOLDER = Path(__file__).with_name("devices")
_VENDORS = re.compile(r"^(nvidia|amd|intel)\b")


@cache
def devices() -> Mapping[str, DataSheet]:
    """Return all devices of the catalogue by canonical name."""
    # Tests check these shipped files, so they are read without `read_json`'s checks: 5x faster.
    files = (path.read_bytes() for path in sorted(FOLDER.glob("*.json")))
    sheets = [DataSheet.model_validate_json(raw, strict=True) for raw in files]
    return {device.name: device for device in sheets}


@lru_cache(maxsize=4_096)
def simplified(name: str) -> str:
    """Return a name in the form that is compared: lower-case letters and digits, no vendor, no form
    of the board (OAM)."""
    words = re.sub(r"[^a-z0-9]+|\boam$", " ", name.lower()).strip()
    return _VENDORS.sub("", words).replace(" ", "") or words


@cache
def _by_name() -> Mapping[str, tuple[DataSheet, ...]]:
    names: dict[str, dict[str, DataSheet]] = {}
    for device in devices().values():
        for name in (device.name, *device.aliases):
            names.setdefault(simplified(name), {})[device.name] = device
    return {name: tuple(of.values()) for name, of in names.items()}


def candidates(name: str) -> tuple[DataSheet, ...]:
    """Return all devices with this name or alias; empty for an unknown name."""
    return _by_name().get(simplified(name), ())


def find(name: str) -> DataSheet | None:
    """Return the device with this name or alias, or None.

    Raises UsageError where several devices have the name.
    """
    matching = candidates(name)
    if len(matching) > 1:
        names = ", ".join(device.name for device in matching)
        raise UsageError(f"{name!r} may be several devices", hint=f"one of {names}")
    return matching[0] if matching else None


def get(name: str) -> DataSheet:
    """Return the device with this name or alias.

    Raises UsageError for an unknown name, with similar names, and for an ambiguous one.
    """
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
    """Return the canonical names of at most three devices with names similar to ``name``."""
    near = difflib.get_close_matches(simplified(name), _by_name(), n=3)
    return tuple(
        dict.fromkeys(device.name for near_name in near for device in _by_name()[near_name])
    )[:3]


def platform_named(name: str, known: Mapping[str, Platform]) -> Platform:
    """Return a platform by its name, or the only GPU platform whose device has the name.

    Raises UsageError that lists several such platforms, or suggests the most similar name.
    """
    wanted = simplified(name)
    same = [p for p in known.values() if simplified(p.name) == wanted]
    if name not in known and not same and (device := find(name)) is not None:
        same = [p for p in known.values() if p.kind is PlatformKind.GPU and device_of(p) is device]
    if len(same) > 1 and name not in known:
        names = ", ".join(platform.name for platform in same)
        raise UsageError(f"{name!r} may be several platforms", hint=f"one of {names}")
    return same[0] if len(same) == 1 else platforms.get(name, known)


def device_of(platform: Platform) -> DataSheet | None:
    """Return the device that a platform's ``accelerator``, or else its name, stands for.

    None if unknown. Raises UsageError where the ``accelerator`` is unknown or ambiguous.
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
