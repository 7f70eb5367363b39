"""Ranks a site's candidates by the speed of their hardware, for jobs of unknown programs.

Kinds of hardware are compared by the geometric mean of their floating-point rate and their main
memory's bandwidth: of one core for CPU nodes, of one device for GPUs and MIG slices. Where the
rates of a kind are only a rule of thumb, all candidates of that kind of hardware keep the order of
the site file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from berth.pilot.platform import Platform, SignatureSource
from berth.policies.values import Candidate


def with_speed_ranks(
    candidates: Sequence[Candidate], platforms: Mapping[str, Platform]
) -> tuple[Candidate, ...]:
    """Return the candidates, in their order, with ``speed_rank``; ``platforms``: by name."""
    speeds = {c.platform: _speed(platforms[c.platform]) for c in candidates}
    ranks: dict[str, int] = {}
    for is_gpu in (False, True):
        of_kind = [c for c in candidates if c.is_gpu is is_gpu]
        if all(speeds[c.platform] is not None for c in of_kind):
            of_kind.sort(key=lambda c: -(speeds[c.platform] or 0.0))
        ranks.update((c.name, rank) for rank, c in enumerate(of_kind))
    return tuple(replace(c, speed_rank=ranks[c.name]) for c in candidates)


def _speed(platform: Platform) -> float | None:
    """Return the rate by which platforms of one kind are compared; None: it was never measured."""
    signature = platform.signature
    if signature.source is SignatureSource.RULE_OF_THUMB:
        return None
    memory = signature.level("dram")
    assert memory is not None  # noqa: S101 - checked by the document
    if platform.is_gpu:
        return math.sqrt(signature.flops_f32_per_s * memory.total_bytes_per_s)
    core = signature.flops_f64_core_per_s or signature.flops_f64_per_s / platform.cores
    return math.sqrt(core * memory.total_bytes_per_s / platform.cores)
