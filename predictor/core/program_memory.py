"""A program's peak memory on another platform than that of its pilot run.

On another platform, GPU platforms included, host memory is the program's peak on the reference. GPU
memory is the pilot's measurement where the program ran on a GPU. For a program that ran on CPUs
only, Berth assumes that its data moves to GPU memory and that the GPU runtime's context is added.
That build was never seen, so the interval is wide: from half of the host's lower bound (some data
stays on the host) to the host's upper bound plus a large context. Where a program ran on a GPU
without a measurement of GPU memory, only the model of that GPU is known.
"""

from __future__ import annotations

from berth.pilot.platform import Platform
from berth.pilot.profile import Profile, Target
from berth.predictor.core.prediction import Interval, MemoryUse
from berth.predictor.core.sizes import SizeGrowth

GPU_CONTEXT_BYTES = 350 * 2**20
"""Typical memory of a GPU runtime's context, in bytes."""
GPU_CONTEXT_MOST_BYTES = 600 * 2**20
"""Largest memory of a GPU runtime's context, in bytes."""
RESIDENT_AT_LEAST = 0.5
"""Least share of a CPU program's host memory that a GPU build holds in GPU memory."""


def memory_on(
    platform: Platform, profile: Profile, sizes: SizeGrowth, ran_on: Platform | None
) -> MemoryUse:
    """Return the peak memory of a program with a pilot run on a platform, at the profile's own
    size.

    ``ran_on``: the platform of the pilot run; None: unknown.
    """
    host = sizes.memory_bytes()
    if not platform.is_gpu:
        return MemoryUse(host_bytes=host)
    if not ran_on_gpu(profile):
        return MemoryUse(host, None if host is None else _moved_to_gpu(host))
    held_in = ran_on.memory_bytes if ran_on is not None and ran_on.is_gpu else None
    return MemoryUse(host, sizes.gpu_memory_bytes(), held_in)


def ran_on_gpu(profile: Profile) -> bool:
    """Return whether the pilot run used a GPU; its host memory then says nothing about GPU
    memory."""
    return profile.runs_on.gpus > 0 or Target.CPU not in profile.runs_on.targets


def _moved_to_gpu(host: Interval) -> Interval:
    """Return the GPU memory estimated for a program that ran on CPUs only, from its host memory."""
    low = RESIDENT_AT_LEAST * host.low
    return Interval(low, host.mid + GPU_CONTEXT_BYTES, host.high + GPU_CONTEXT_MOST_BYTES)
