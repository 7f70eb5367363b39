"""Peak memory on another platform: what the pilot saw, and what a device adds to it.

On a CPU node the program needs what it needed on the reference. For a GPU the same data is
assumed to live in device memory, beside the runtime's own context; that is an assumption about
a build that was never seen, so the interval is wide: down to half of the host's peak (what is
not resident on the device) and up to the host's upper bound and a large context.
"""

from __future__ import annotations

from berth.pilot.platform import Platform
from berth.predictor.core.prediction import Interval
from berth.predictor.core.sizes import UNKNOWN_BYTES, SizeGrowth

__all__ = ["UNKNOWN", "UNKNOWN_BYTES", "memory_on", "where_known"]

GPU_CONTEXT_BYTES = 350 * 2**20
GPU_CONTEXT_MOST_BYTES = 600 * 2**20
RESIDENT_AT_LEAST = 0.5
UNKNOWN = Interval(0.0, 0.0, UNKNOWN_BYTES)
"""No peak was measured."""


def where_known(memory: Interval | None) -> Interval | None:
    """The need, to be shown or asked for; None where its upper end is not known."""
    return None if memory is None or memory.high >= UNKNOWN_BYTES else memory


def memory_on(platform: Platform, sizes: SizeGrowth) -> Interval:
    """Peak bytes of the node's (CPU) or device's (GPU) memory at the profile's own size."""
    host = sizes.memory_bytes()
    if host is None:
        return UNKNOWN
    if not platform.is_gpu:
        return host
    low = RESIDENT_AT_LEAST * host.low
    return Interval(low, host.mid + GPU_CONTEXT_BYTES, host.high + GPU_CONTEXT_MOST_BYTES)
