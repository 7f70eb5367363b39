"""Benchmark data of machines: several runs (samples) of the same benchmarks on each of them.

Where no benchmark was run (AIWC), the times of anchor kernels stand in for them: one sample a
problem size (there: a thread count), one feature an anchor kernel. Anchors are left out of every
test of xAMM, and where an application is held out its anchors are not in the signature.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform, Signature
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from lab.relative.data import ANCHORS

LEVELS = ("l1", "l2", "l3", "dram")


@dataclass(frozen=True, slots=True)
class Benchmarks:
    """Machine -> samples x features; NaN: not measured."""

    features: tuple[str, ...]
    samples: Mapping[str, Floats]

    @property
    def machines(self) -> tuple[str, ...]:
        """Return the machines in their order."""
        return tuple(self.samples)

    def complete(self) -> tuple[str, ...]:
        """Return the machines that have at least one sample with at least one value."""
        return tuple(
            name for name, values in self.samples.items() if np.isfinite(values).any(axis=1).any()
        )


def from_platforms(platforms: Iterable[Platform]) -> Benchmarks:
    """Signatures as two samples each: one core, and all of the machine (a GPU: the same twice).

    Logarithms of flop/s, of byte/s of each level of memory, of memory's latency, of the serial
    rate, of branch misses, reductions and launches: what `berth pilot bench` measures and
    `berth site platform add` keeps. Raises UsageError where there is no platform.
    """
    samples = {
        p.name: np.array([_sample(p.signature, core=True), _sample(p.signature, core=False)])
        for p in platforms
    }
    if not samples:
        raise UsageError("there is no platform to make a machine model of")
    return Benchmarks(_names(), samples)


def _names() -> tuple[str, ...]:
    rates = ("flops_f64", "flops_f32", *LEVELS)
    return (*rates, "dram_latency", "scalar_chain", "branch_misses", "reduction", "launch")


def _sample(signature: Signature, *, core: bool) -> list[float]:
    levels = [signature.level(name) for name in LEVELS]
    dram = signature.level("dram")
    pairs = [
        (signature.flops_f64_core_per_s, signature.flops_f64_per_s),
        (signature.flops_f32_core_per_s, signature.flops_f32_per_s),
        *((None, None) if m is None else (m.core_bytes_per_s, m.total_bytes_per_s) for m in levels),
    ]
    rates = [
        *((one or whole) if core else whole for one, whole in pairs),
        None if dram is None else dram.latency_s,
        signature.scalar_chain_core_per_s,
        signature.branch_misses_core_per_s,
        signature.reduction_total_bytes_per_s,
        signature.launch_overhead_s,
    ]
    return [math.nan if not rate else math.log(rate) for rate in rates]


def signatures(rows: Rows, anchors: Sequence[tuple[str, str]] = ANCHORS) -> Benchmarks:
    """Return platform -> sizes x anchors that are among ``rows``: log time over that on the
    reference."""
    cells = {
        (a, k, s): i
        for i, (a, k, s) in enumerate(zip(rows.applications, rows.kernels, rows.sizes, strict=True))
        if (a, k) in anchors
    }
    sizes = sorted({size for _, _, size in cells})
    present = sorted({(a, k) for a, k, _ in cells})
    relative = -rows.log_speedup
    samples = {}
    for column, platform in enumerate(rows.platforms):
        table = np.full((len(sizes), len(present)), np.nan)
        for (application, kernel, size), row in cells.items():
            place = sizes.index(size), present.index((application, kernel))
            table[place] = relative[row, column]
        samples[platform] = table
    return Benchmarks(tuple(f"{a}/{k}" for a, k in present), samples)
