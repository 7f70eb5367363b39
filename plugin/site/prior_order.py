"""The order in which a site's candidates are offered to jobs of unknown programs.

The fastest hardware comes first: CPU nodes by their own times of the benchmark kernels, where all
ran them, or by the score of their cores, where each has one; else, and GPUs and MIG slices, by the
geometric mean of the floating-point rate and the main memory's bandwidth, of one core or one
device. Where the rates of a kind are only a rule of thumb, all candidates of that kind of hardware
keep the order of the site file. CPU nodes with far more memory than most are scarce: jobs go there
that fit nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from berth.pilot.platform import Platform, SignatureSource
from berth.policies.values import Candidate
from berth.predictor.hardware.core_speed import benchmarked_log_ratio, core_score

_FAR_MORE = 3.0
"""High-memory nodes of published sites have 4 to 16 times the memory of a core of their ordinary
ones; between two generations of ordinary nodes it doubles at most."""


def with_prior_order(
    candidates: Sequence[Candidate], platforms: Mapping[str, Platform]
) -> tuple[Candidate, ...]:
    """Return the candidates, in their order, with ``speed_rank`` and ``scarce``; ``platforms``: by
    name."""
    speeds = {c.platform: _speed(platforms[c.platform]) for c in candidates}
    cpus = [c.platform for c in candidates if not c.is_gpu]
    scores = {name: core_score(platforms[name]) for name in cpus}
    if (by_kernels := _by_kernels([platforms[name] for name in dict.fromkeys(cpus)])) is not None:
        speeds |= by_kernels
    elif all(score is not None for score in scores.values()):
        speeds |= {
            name: math.sqrt(score.integer * score.floating_point)
            for name, score in scores.items()
            if score is not None
        }
    ranks: dict[str, int] = {}
    for is_gpu in (False, True):
        of_kind = [c for c in candidates if c.is_gpu is is_gpu]
        if all(speeds[c.platform] is not None for c in of_kind):
            of_kind.sort(key=lambda c: -(speeds[c.platform] or 0.0))
        ranks.update((c.name, rank) for rank, c in enumerate(of_kind))
    usual = _usual_bytes_per_core(candidates)
    return tuple(
        replace(c, speed_rank=ranks[c.name], scarce=_bytes_per_core(c) >= _FAR_MORE * usual)
        for c in candidates
    )


def _usual_bytes_per_core(candidates: Sequence[Candidate]) -> float:
    """Return the memory of a core in bytes that at least half of the site's cores have; infinity:
    there are no CPU nodes, or their numbers are not known."""
    kinds = sorted(
        (_bytes_per_core(c), (c.nodes or 1) * c.cores_per_node)
        for c in candidates
        if not c.is_gpu and c.memory_bytes_per_node
    )
    if any(c.nodes is None for c in candidates if not c.is_gpu):
        return math.inf  # the site file does not say what is scarce
    half, counted = sum(cores for _, cores in kinds) / 2, 0
    for memory, cores in kinds:
        counted += cores
        if counted >= half:
            return memory
    return math.inf


def _bytes_per_core(candidate: Candidate) -> float:
    if candidate.is_gpu or not candidate.memory_bytes_per_node:
        return 0.0
    return candidate.memory_bytes_per_node / candidate.cores_per_node


def _by_kernels(cpus: Sequence[Platform]) -> dict[str, float] | None:
    """Return how fast one core of each platform runs the benchmark kernels, relative to the first;
    None: they did not all run the same ones."""
    log_ratios = {p.name: benchmarked_log_ratio(cpus[0].signature, p.signature) for p in cpus}
    known = {name: math.exp(-ratio) for name, ratio in log_ratios.items() if ratio is not None}
    return known if len(known) == len(cpus) else None


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
