"""Which platforms are at least as good as others in every respect, by their data sheets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from berth.pilot.platform import Platform
from berth.predictor.hardware.gpus import of_platform
from berth.predictor.hardware.roofs import Numbers, Roof


def better_pairs(
    roofs: Sequence[Roof], platforms: Mapping[str, Platform], numbers: Numbers
) -> list[tuple[str, str]]:
    """(better, worse) among GPUs and slices of one vendor, computing in ``numbers``."""
    vendor = {
        one.platform: gpu.amd
        for one in roofs
        if (gpu := of_platform(platforms[one.platform], platforms)) is not None
    }
    known = [one for one in roofs if one.platform in vendor]
    return [
        (a.platform, b.platform)
        for a in known
        for b in known
        if vendor[a.platform] is vendor[b.platform] and dominates(a, b, numbers)
    ]


def dominates(a: Roof, b: Roof, numbers: Numbers) -> bool:
    """Whether ``a`` is at least as good as ``b`` in every respect, and better in one."""
    if a.is_gpu != b.is_gpu:
        return False
    ours, theirs = _respects(a, numbers), _respects(b, numbers)
    return ours != theirs and all(x >= y for x, y in zip(ours, theirs, strict=True))


def _respects(one: Roof, numbers: Numbers) -> tuple[float, ...]:
    return (
        one.vector_flops, one.matrix_flops[numbers], one.dram_bytes, one.l2_bytes, one.l2_capacity,
        one.memory_bytes, -one.launch_s,
    )  # fmt: skip
