"""Peak memory of a program on another platform: of the host, and of the device.

Host memory is what the program needed on the reference, on a GPU's node, too. Device memory is
what the pilot measured there, where it ran on a GPU. Of a program that ran on CPUs only, the same
data is assumed to live in device memory, beside the runtime's own context; that is an assumption
about a build that was never seen, so the interval is wide: down to half of the host's peak (what
is not resident on the device) and up to the host's upper bound and a large context. Where a program
ran on a GPU and nobody measured its device memory, all that is known is the GPU that it ran on.
"""

from __future__ import annotations

from berth.pilot.platform import Platform
from berth.pilot.profile import Profile, Target
from berth.predictor.core.prediction import Interval, MemoryUse
from berth.predictor.core.sizes import SizeGrowth

GPU_CONTEXT_BYTES = 350 * 2**20
GPU_CONTEXT_MOST_BYTES = 600 * 2**20
RESIDENT_AT_LEAST = 0.5


def memory_on(
    platform: Platform, profile: Profile, sizes: SizeGrowth, ran_on: Platform | None
) -> MemoryUse:
    """Peak memory of a piloted program there, at the profile's own size.

    ``ran_on``: where the pilot ran; None: not known.
    """
    host = sizes.memory_bytes()
    if not platform.is_gpu:
        return MemoryUse(host_bytes=host)
    if not ran_on_gpu(profile):
        return MemoryUse(host, None if host is None else _moved_to_gpu(host))
    held_in = ran_on.memory_bytes if ran_on is not None and ran_on.is_gpu else None
    return MemoryUse(host, sizes.gpu_memory_bytes(), held_in)


def ran_on_gpu(profile: Profile) -> bool:
    """Whether the pilot's run used a GPU, so that its host memory says nothing of device memory."""
    return profile.runs_on.gpus > 0 or Target.CPU not in profile.runs_on.targets


def _moved_to_gpu(host: Interval) -> Interval:
    low = RESIDENT_AT_LEAST * host.low
    return Interval(low, host.mid + GPU_CONTEXT_BYTES, host.high + GPU_CONTEXT_MOST_BYTES)
