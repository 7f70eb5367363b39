"""What an operator takes at the least on a GPU, and what its utilisation is learnt from.

``base = max(flops / (peak x power share), bytes / bandwidth)``. The power share is what a GPU can
keep of its peak clock within its rated power: ``min(1, (w / w0) ** gamma)`` with ``w`` its watts a
TFLOP/s of fp32, in watts of 16 nm; by what the foundry says its processes save (TSMC: 12FFC 25 %
of 16FF+, N7 60 % of 16FF+, N5 30 % of N7). ``w0`` and ``gamma`` are fitted. Utilisation (0, 1] is
``base / (time - launch)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from berth.predictor.graphs.roofs import Numbers
from berth.predictor.operators.calls import MATRIX, WINOGRAD, Calls, Floats, Integers, Kind
from berth.predictor.operators.gpu import Gpu

Features: TypeAlias = NDArray[np.float32]
TILES = ((128, 128), (128, 64), (64, 64), (32, 32))
"""Rows x columns that one thread block computes."""
PROCESS_POWER = {16: 1.0, 14: 1.0, 12: 0.75, 8: 0.5, 7: 0.4, 6: 0.4, 5: 0.28, 4: 0.28, 3: 0.28}
"""Power of the same circuit at the same speed, of a process in nm; 8: between its neighbours."""
UNKNOWN_GENERATION = 8
AMD = 0
PRODUCT_FEATURES = (
    *(f"{what}_{m}x{n}" for m, n in TILES for what in ("blocks", "wave_share", "tile_share")),
    "rows", "columns", "inner", "groups", "rows_two", "columns_two", "inner_two", "kind",
    "intensity_over_ridge", "bytes_over_l2", "group_bytes_over_l2", "generation", "watts",
)  # fmt: skip
"""Sizes as powers of two; ``*_two``: the power of two that divides a size (5 at most)."""
VECTOR_FEATURES = (
    "kind", "rows", "columns", "columns_two", "bytes_a_multiprocessor", "bytes_over_l2",
    "rows_a_multiprocessor", "bytes_a_flop", "generation", "watts",
)  # fmt: skip
LEAST_UTILISATION = 1e-4
_NEWEST = 8
"""Generations beyond were not measured: they are taken as this one."""


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """Share of the peak that fits the rated power."""

    watts: float
    """Of 16 nm, a TFLOP/s: from there on the peak can be kept."""
    gamma: float
    """0: power does not matter."""

    def share(self, gpu: Gpu) -> float:
        """In (0, 1]; 1 where the GPU's power or process is not known."""
        watts = watts_a_tflop(gpu)
        if watts is None or self.gamma == 0:
            return 1.0
        return float(min(1.0, max(watts / self.watts, 1e-3) ** self.gamma))


def watts_a_tflop(gpu: Gpu) -> float | None:
    """Rated watts a TFLOP/s of fp32, in watts of 16 nm; None where not known."""
    need = PROCESS_POWER.get(gpu.process_nm) if gpu.process_nm is not None else None
    if need is None or gpu.power_w is None:
        return None
    return gpu.power_w / (gpu.vector_flops / 1e12) / need


def roof_seconds(calls: Calls, gpu: Gpu, numbers: Numbers) -> Floats:
    """[n] nothing is faster: the larger of arithmetic and memory at full peaks."""
    matrix = np.isin(calls.kind, MATRIX)
    return _roof(calls, np.where(matrix, gpu.peak(numbers), gpu.vector_flops), gpu)


def base_seconds(calls: Calls, gpu: Gpu, numbers: Numbers, power: PowerLaw) -> Floats:
    """[n] as ``roof_seconds`` with the peak that the rated power allows."""
    matrix = np.isin(calls.kind, MATRIX)
    kept = gpu.peak(numbers) * power.share(gpu)
    return _roof(calls, np.where(matrix, kept, gpu.vector_flops), gpu)


def _roof(calls: Calls, peak: Floats, gpu: Gpu) -> Floats:
    work = np.where(calls.kind == Kind.CONVOLUTION, calls.flops / WINOGRAD, calls.flops)
    floor = 1e-12
    found: Floats = np.maximum(np.maximum(work / peak, calls.moved_bytes / gpu.bytes_per_s), floor)
    return found


def product_features(calls: Calls, gpu: Gpu, numbers: Numbers, power: PowerLaw) -> Features:
    """[n, len(PRODUCT_FEATURES)]"""
    found = np.empty((len(calls), len(PRODUCT_FEATURES)), np.float32)
    groups, rows, columns, inner = (
        np.maximum(x, 1.0) for x in (calls.groups, calls.rows, calls.columns, calls.inner)
    )
    at = 0
    for tile_rows, tile_columns in TILES:
        across, down = np.ceil(rows / tile_rows), np.ceil(columns / tile_columns)
        blocks = groups * across * down
        waves = blocks / gpu.multiprocessors
        found[:, at] = np.log2(waves)
        found[:, at + 1] = waves / np.ceil(waves)
        found[:, at + 2] = rows / (across * tile_rows) * (columns / (down * tile_columns))
        at += 3
    moved = np.maximum(calls.moved_bytes, 1.0)
    ridge = gpu.peak(numbers) / gpu.bytes_per_s
    for values in (
        np.log2(rows), np.log2(columns), np.log2(inner), np.log2(groups),
        two(rows), two(columns), two(inner), calls.kind,
        np.log2(np.maximum(calls.flops, 1.0) / moved / ridge),
        np.log2(moved / gpu.l2_bytes), np.log2(moved / groups / gpu.l2_bytes),
        generation(gpu), watts(gpu, power),
    ):  # fmt: skip
        found[:, at] = values
        at += 1
    return found


def vector_features(calls: Calls, gpu: Gpu, power: PowerLaw) -> Features:
    """[n, len(VECTOR_FEATURES)]"""
    found = np.empty((len(calls), len(VECTOR_FEATURES)), np.float32)
    rows, columns = np.maximum(calls.rows, 1.0), np.maximum(calls.columns, 1.0)
    moved = np.maximum(calls.moved_bytes, 1.0)
    for at, values in enumerate((
        calls.kind, np.log2(rows), np.log2(columns), two(columns),
        np.log2(moved / gpu.multiprocessors), np.log2(moved / gpu.l2_bytes),
        np.log2(rows / gpu.multiprocessors), np.log2(gpu.bytes_per_s / gpu.vector_flops),
        generation(gpu), watts(gpu, power),
    )):  # fmt: skip
        found[:, at] = values
    return found


def utilisation(margin: Floats) -> Floats:
    """In (0, 1] from what the trees give: a logistic curve."""
    found: Floats = np.maximum(1 / (1 + np.exp(-np.clip(margin, -30, 30))), LEAST_UTILISATION)
    return found


def two(sizes: Floats) -> Integers:
    """The power of two that divides each size, 5 at most: how far accesses can be aligned."""
    whole = np.minimum(np.maximum(sizes, 1), 2.0**52).astype(np.int64)
    low = whole & -whole
    return np.minimum(np.log2(low.astype(np.float64)), 5).astype(np.int64)


def generation(gpu: Gpu) -> int:
    """As the trees know it: AMD's are one of their own, newer ones than measured the newest."""
    if gpu.amd:
        return AMD
    return min(gpu.generation or UNKNOWN_GENERATION, _NEWEST)


def watts(gpu: Gpu, power: PowerLaw) -> float:
    """Power of two of the watts; where they are not known, enough of them."""
    found = watts_a_tflop(gpu)
    return float(np.log2(power.watts if found is None else found))
