"""Compute the least time of an operator on a GPU and the input features of the utilisation model.

The least time is ``base = max(flops / (peak x share), bytes / bandwidth)``, in seconds:

``peak``: the GPU's peak rate in flop/s, from its data sheet.
``share``: the part of the peak that the GPU sustains within its rated power, ``min(1, (w / w0) **
gamma)``.
``w``: rated watts per TFLOP/s of fp32, converted to a 16 nm process by the power savings that the
foundry states (TSMC: 12FFC 25 % less than 16FF+, N7 60 % less than 16FF+, N5 30 % less than N7).
``w0`` (watts per TFLOP/s) and ``gamma`` (no unit): fitted.

The utilisation, in (0, 1], is ``base / (time - launch)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from berth.predictor.core.arrays import Floats
from berth.predictor.families.graph.operators.calls import WINOGRAD, CallKind, Calls, Integers
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.unit import Unit

Features: TypeAlias = NDArray[np.float32]
TILES = ((128, 128), (128, 64), (64, 64), (32, 32))
"""Rows x columns of the output tile that one thread block computes."""
PROCESS_POWER = {16: 1.0, 14: 1.0, 12: 0.75, 8: 0.5, 7: 0.4, 6: 0.4, 5: 0.28, 4: 0.28, 3: 0.28}
"""Power of the same circuit at the same speed, relative to 16 nm, by process in nm; the value for 8
nm is interpolated."""
UNKNOWN_GENERATION = 8
AMD = 0
PRODUCT_FEATURES = (
    *(f"{part}_{m}x{n}" for m, n in TILES for part in ("blocks", "wave_share", "tile_share")),
    "rows", "columns", "inner", "groups", "rows_two", "columns_two", "inner_two", "kind",
    "intensity_over_ridge", "bytes_over_l2", "group_bytes_over_l2", "generation", "watts",
)  # fmt: skip
"""Columns of ``product_features``. Sizes are base-2 logs; ``*_two``: exponent of the largest power
of two that divides a size (at most 5)."""
VECTOR_FEATURES = (
    "kind", "rows", "columns", "columns_two", "bytes_a_multiprocessor", "bytes_over_l2",
    "rows_a_multiprocessor", "bytes_a_flop", "generation", "watts",
)  # fmt: skip
KERNEL_S = 4e-6
"""Seconds from the end of one kernel to the start of the next, queued back to back."""
LEAST_UTILISATION = 1e-4
LEAST_S = 1e-12
LEAST_ROWS, LEAST_LINEAR_ROWS, LEAST_INNER = 32.0, 128.0, 8.0
"""Smallest sizes of products that are distinguished: smaller products do not fill a tile."""
_NEWEST = 8
"""Newest measured generation; newer GPUs count as this generation."""


@dataclass(frozen=True, slots=True)
class PowerLimit:
    """Parameters of the power share: the part of its peak rate that a GPU sustains within its rated
    power."""

    watts: float
    """Watts per TFLOP/s (16 nm) above which a GPU sustains its full peak rate: ``w0``."""
    gamma: float
    """Exponent of the power share; 0: power has no influence."""

    def share(self, gpu: Unit) -> float:
        """Return the share of the peak rate that ``gpu`` sustains, in (0, 1]; 1 if its rated power
        or process is unknown."""
        watts = watts_a_tflop(gpu)
        if watts is None or self.gamma == 0:
            return 1.0
        return float(min(1.0, max(watts / self.watts, 1e-3) ** self.gamma))


def watts_a_tflop(gpu: Unit) -> float | None:
    sheet = gpu.sheet
    need = PROCESS_POWER.get(sheet.process_nm) if sheet.process_nm is not None else None
    if need is None or sheet.power_w is None:
        return None
    return sheet.power_w / (gpu.vector_flops / gpu.share / 1e12) / need


@dataclass(frozen=True)
class Places:
    """Properties of several GPUs, as arrays of shape [gpus, 1]."""

    multiprocessors: Floats
    bytes_per_s: Floats
    l2_bytes: Floats
    vector_flops: Floats
    peak: Floats
    """Peak rate of matrix products in the requested precision, in flop/s."""
    share: Floats
    """Share of the peak that the rated power allows, 0 to 1."""
    generation: Floats
    watts: Floats

    @staticmethod
    def of(gpus: Sequence[Unit], numbers: Numbers, power: PowerLimit) -> Places:
        """Return the properties of ``gpus`` as arrays, in the order of ``gpus``, for the precision
        ``numbers``."""
        rows = [
            (
                gpu.multiprocessors, gpu.bytes_per_s, gpu.l2_bytes, gpu.vector_flops,
                gpu.peak(numbers), power.share(gpu), generation(gpu), watts(gpu, power),
            )
            for gpu in gpus
        ]  # fmt: skip
        table = np.array(rows, np.float64).reshape(len(gpus), 8)
        return Places(*(table[:, n : n + 1] for n in range(8)))

    def __len__(self) -> int:
        return len(self.peak)


def roof_seconds(calls: Calls, places: Places) -> Floats:
    """Return [gpus, n]: the least seconds of each call on each GPU, the longer of arithmetic and
    memory time at full peak rates."""
    return _roof(calls, places, places.peak)


def base_seconds(calls: Calls, places: Places) -> Floats:
    """Return [gpus, n]: the least seconds of each call on each GPU, with the peak rate that the
    rated power allows."""
    return _roof(calls, places, places.peak * places.share)


def _roof(calls: Calls, places: Places, peak: Floats) -> Floats:
    matrix = calls.kind <= CallKind.CONVOLUTION
    work = np.where(calls.kind == CallKind.CONVOLUTION, calls.flops / WINOGRAD, calls.flops)
    arithmetic = work / np.where(matrix, peak, places.vector_flops)
    seconds: Floats = np.maximum(arithmetic, calls.moved_bytes / places.bytes_per_s)
    return np.maximum(seconds, LEAST_S)


def product_features(calls: Calls, places: Places) -> Features:
    """Return the model inputs of products, [gpus * n, len(PRODUCT_FEATURES)]: all calls on the
    first GPU, then on the next.

    Sizes are raised to those of the smallest tiles, since smaller products take as long.
    """
    groups = np.maximum(calls.groups, 1.0)
    linear = calls.kind == CallKind.LINEAR
    rows = np.maximum(calls.rows, np.where(linear, LEAST_LINEAR_ROWS, LEAST_ROWS))
    columns, inner = np.maximum(calls.columns, LEAST_ROWS), np.maximum(calls.inner, LEAST_INNER)
    features = np.empty((len(places), len(calls), len(PRODUCT_FEATURES)), np.float32)
    at = 0
    for tile_rows, tile_columns in TILES:
        across, down = np.ceil(rows / tile_rows), np.ceil(columns / tile_columns)
        waves = groups * across * down / places.multiprocessors
        features[:, :, at] = np.log2(waves)
        features[:, :, at + 1] = waves / np.ceil(waves)
        features[:, :, at + 2] = rows / (across * tile_rows) * (columns / (down * tile_columns))
        at += 3
    moved = np.maximum(calls.moved_bytes, 1.0)
    intensity = np.maximum(calls.flops, 1.0) / moved
    for values in (
        np.log2(rows), np.log2(columns), np.log2(inner), np.log2(groups),
        two(rows), two(columns), two(inner), calls.kind,
        np.log2(intensity) - np.log2(places.peak / places.bytes_per_s),
        np.log2(moved) - np.log2(places.l2_bytes),
        np.log2(moved / groups) - np.log2(places.l2_bytes), places.generation, places.watts,
    ):  # fmt: skip
        features[:, :, at] = values
        at += 1
    return features.reshape(-1, len(PRODUCT_FEATURES))


def vector_features(calls: Calls, places: Places) -> Features:
    """Return the model inputs of vector operators, [gpus * n, len(VECTOR_FEATURES)]: all calls on
    the first GPU, then on the next."""
    features = np.empty((len(places), len(calls), len(VECTOR_FEATURES)), np.float32)
    rows, columns = np.maximum(calls.rows, 1.0), np.maximum(calls.columns, 1.0)
    moved = np.log2(np.maximum(calls.moved_bytes, 1.0))
    each = np.log2(places.multiprocessors)
    for at, values in enumerate((
        calls.kind, np.log2(rows), np.log2(columns), two(columns),
        moved - each, moved - np.log2(places.l2_bytes), np.log2(rows) - each,
        np.log2(places.bytes_per_s / places.vector_flops), places.generation, places.watts,
    )):  # fmt: skip
        features[:, :, at] = values
    return features.reshape(-1, len(VECTOR_FEATURES))


def utilisation(margin: Floats) -> Floats:
    """Return the utilisation in (0, 1] from the tree ensemble's output, by a logistic function."""
    shares: Floats = np.maximum(1 / (1 + np.exp(-np.clip(margin, -30, 30))), LEAST_UTILISATION)
    return shares


def two(sizes: Floats) -> Integers:
    """Return the exponent of the largest power of two that divides each size, at most 5: the
    possible alignment of accesses."""
    whole = np.minimum(np.maximum(sizes, 1), 2.0**52).astype(np.int64)
    low = whole & -whole
    return np.minimum(np.log2(low.astype(np.float64)), 5).astype(np.int64)


def generation(gpu: Unit) -> int:
    """Return a GPU's generation as a model input: all AMD GPUs share one value, and GPUs newer than
    the measured ones count as the newest measured generation."""
    if gpu.sheet.vendor == "amd":
        return AMD
    return min(gpu.sheet.generation or UNKNOWN_GENERATION, _NEWEST)


def watts(gpu: Unit, power: PowerLimit) -> float:
    """Return log2 of a GPU's watts per TFLOP/s (16 nm); if unknown, log2 of ``PowerLimit.watts``,
    above which power has no influence."""
    known_watts = watts_a_tflop(gpu)
    return float(np.log2(power.watts if known_watts is None else known_watts))
