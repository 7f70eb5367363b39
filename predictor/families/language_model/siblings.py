"""Whose effects an accelerator has that nothing was measured on: its nearest measured sibling's.

Frameworks reach more of the peaks of the vendor that they were written for than shared effects
say: with the nearest CUDA sibling's effects the median error of offline time on an A100 and an
H100 that were left out falls from 61 and 139 % to 19 and 17 %
(``python -m lab unseen-accelerators``). Vendors of which only unlike
accelerators were measured keep the shared effects.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from berth.predictor.families.language_model.physics import OFFLINE
from berth.predictor.hardware.catalogue import devices
from berth.predictor.hardware.unit import Unit, unit_named

_CUDA = "cuda"
LOG_WIDTHS = {OFFLINE: 0.8}
"""By head: half width of the 90 % interval with a sibling's effects, of the widest accelerator left
out (two: too few for a calibrated interval, so the basis stays ``prior``). Other heads, where
siblings help little, keep their bundle's width."""


def stands_for(device: Unit, measured: Sequence[str]) -> str:
    """The name whose effects the device has: its own (a slice: its GPU's), a sibling's, or none."""
    own = device.sheet.name
    return own if own in measured else sibling(device, measured) or ""


def sibling(device: Unit, measured: Sequence[str]) -> str | None:
    """The nearest measured accelerator that runs CUDA, by bandwidth and 16-bit peak."""
    return _nearest(device.sheet.name, tuple(measured))


@cache
def _nearest(name: str, measured: tuple[str, ...]) -> str | None:
    known = devices()
    near = [other for other in measured if other in known and known[other].software == _CUDA]
    if name not in known or known[name].software != _CUDA:
        return None
    own = unit_named(name)
    return min(near, key=lambda other: (_apart(own, unit_named(other)), other), default=None)


def _apart(one: Unit, other: Unit) -> float:
    return abs(math.log(one.bytes_per_s / other.bytes_per_s)) + abs(
        math.log(one.flops_per_s(16) / other.flops_per_s(16))
    )
