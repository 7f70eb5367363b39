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

from berth.predictor.families.language_model.physics import OFFLINE
from berth.predictor.hardware.accelerators import Accelerator, Device, catalogue

LOG_WIDTHS = {OFFLINE: 0.8}
"""By head: half width of the 90 % interval with a sibling's effects, of the widest accelerator left
out (two: too few for a calibrated interval, so the basis stays ``prior``). Other heads, where
siblings help little, keep their bundle's width."""


def stands_for(device: Device, measured: Sequence[str]) -> str:
    """The name whose effects the device has: its own (a slice: its GPU's), a sibling's, or none."""
    own = device.accelerator.name
    return own if own in measured else sibling(device, measured) or ""


def sibling(device: Device, measured: Sequence[str]) -> str | None:
    """The nearest measured accelerator that runs CUDA, by bandwidth and 16-bit peak."""
    own = device.accelerator
    if own.cuda is None:
        return None
    known = catalogue()
    near = [known[name] for name in measured if name in known and known[name].cuda is not None]
    found = min(near, key=lambda other: (_apart(own, other), other.name), default=None)
    return None if found is None else found.name


def has_at_least(one: Device, other: Device) -> bool:
    """Whether ``one`` has no less of memory, bandwidth and any peak than ``other``."""
    pairs = [(one.memory_bytes, other.memory_bytes), (one.bytes_per_s, other.bytes_per_s)]
    pairs += [(one.flops_per_s(bits), other.flops_per_s(bits)) for bits in (4, 8, 16, 32)]
    return all(mine >= theirs for mine, theirs in pairs)


def _apart(one: Accelerator, other: Accelerator) -> float:
    return abs(math.log(one.bytes_per_s / other.bytes_per_s)) + abs(
        math.log(one.flops_f16_per_s / other.flops_f16_per_s)
    )
