"""Views: how counters of one source become cost terms and features of a workload.

``aiwc`` reads the architecture-independent counters of OpenCL kernels. ``pilot`` reads counters of
``berth pilot run``: kernels started, instructions, bytes that miss the first- and the last-level
cache. ``plain`` takes any counters as they are, with ``instructions`` and ``threads`` as work where
they are present.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows

LAUNCH, SERIAL, WORK, REFERENCE = "launch", "serial", "work", "reference"
"""Names of cost terms: launches, work of one thread, work of all threads, time on the reference."""
CACHES, MEMORY = "caches", "memory"
"""Names of cost terms: bytes that miss the first-level and the last-level cache."""
TERMS = frozenset({LAUNCH, SERIAL, WORK, REFERENCE, CACHES, MEMORY})
LINE_BYTES = 64
"""Bytes of a cache line, which each cache miss is taken to move."""
_NEAR = range(1, 11)
"""Numbers of address bits that the local address entropies leave out."""
_LN2 = float(np.log(2.0))


@dataclass(frozen=True, slots=True)
class ViewedRows:
    """Cost terms and features computed from the counters of rows."""

    terms: dict[str, Floats]
    """[rows] log of the amount by each of ``TERMS`` that is known; launches are 0 where unknown."""
    features: Floats
    """[rows, features] natural logs, so that a difference of 1 is a factor of e; NaN: unknown."""


@dataclass(frozen=True, slots=True)
class View:
    """A way to turn the counters of one source into cost terms and features."""

    name: str
    needs: tuple[str, ...]
    """Counters without which the view cannot be used."""
    look: Callable[[Rows, Floats], ViewedRows]
    """Returns terms and features from rows and their filled-in counter values."""
    counters: tuple[str, ...] = ()
    """Counters that this view knows and the catalogue does not."""
    work: tuple[str, ...] = ()
    """Counters that the cost terms are proportional to; far outside the training range they
    dominate the time."""

    def seen(self, rows: Rows, fill: Floats) -> ViewedRows:
        """Return terms and features of ``rows``; ``fill`` replaces missing values, one per
        counter."""
        return self.look(rows, np.where(np.isfinite(rows.values), rows.values, fill))


def _column(rows: Rows, values: Floats, name: str) -> Floats:
    return np.asarray(values[:, rows.counters.index(name)])


def _aiwc(rows: Rows, values: Floats) -> ViewedRows:
    def of(name: str) -> Floats:
        return _column(rows, values, name)

    def log_of(name: str) -> Floats:
        return np.asarray(np.log(np.maximum(of(name), 1.0)))

    work, items = log_of("total_instruction_count"), log_of("workitems")
    footprint = log_of("total_memory_footprint")
    barriers = np.log1p(of("total_barriers_hit") / np.maximum(of("workitems"), 1.0))
    entropy = of("global_memory_address_entropy") * _LN2
    spread = of("local_memory_address_entropy_10") * _LN2
    time = rows.log_reference
    features = np.column_stack(
        [
            work,
            time,
            work - time,
            items,
            work - items,
            footprint,
            log_of("ninety_percent_memory_footprint") - footprint,
            footprint - work,
            entropy,
            0.3 * (entropy - spread),
            entropy - footprint,
            barriers,
            log_of("median_instructions_to_barrier"),
            np.log1p(of("total_unique_branch_instructions")),
            np.log1p(of("branch_entropy_yokota")) / 2,
            of("branch_entropy_average_linear") * 3,
            of("opcode") / 3,
            (of("instructions_per_operand") - 1) * 10,
            of("mean_simd_width") * 5,
        ]
    )
    terms = {LAUNCH: np.zeros(len(rows)), SERIAL: work - items, WORK: work, REFERENCE: time}
    return ViewedRows(terms, features)


def _plain(rows: Rows, values: Floats) -> ViewedRows:
    terms = {LAUNCH: np.zeros(len(rows)), REFERENCE: rows.log_reference}
    if "instructions" in rows.counters:
        work = np.log(np.maximum(_column(rows, values, "instructions"), 1.0))
        terms[WORK] = work
        if "threads" in rows.counters:
            terms[SERIAL] = work - np.log(np.maximum(_column(rows, values, "threads"), 1.0))
    logs = np.log1p(np.maximum(values, 0.0))
    return ViewedRows(terms, np.column_stack([logs, rows.log_reference]))


def _pilot(rows: Rows, values: Floats) -> ViewedRows:
    def sum_of(*names: str) -> Floats:
        columns = [_column(rows, values, name) for name in names if name in rows.counters]
        return np.asarray(np.maximum(np.sum([np.zeros(len(rows)), *columns], axis=0), 0.0))

    def log_of(amount: Floats) -> Floats:
        return np.asarray(np.log(np.maximum(amount, 1.0)))

    work, time = log_of(sum_of("instructions")), rows.log_reference
    started = log_of(np.maximum(sum_of("gpu_kernels"), sum_of("parallel_regions")))
    near = LINE_BYTES * sum_of("l1_load_misses", "l1_store_misses")
    far = LINE_BYTES * sum_of("llc_load_misses", "llc_store_misses")
    flops = sum_of("fp64_ops", "fp32_ops")
    moved = sum_of("load_bytes", "store_bytes")
    features = np.column_stack(
        [
            work,
            time,
            work - time,
            *(np.log1p(amount) - work for amount in (far, near, moved, flops)),
            started,
            np.log1p(sum_of("atomic_ops")),
            np.log1p(sum_of("branch_misses")) - work,
            log_of(near) - log_of(far),
        ]
    )
    terms = {LAUNCH: started, WORK: work, CACHES: log_of(near), MEMORY: log_of(far)}
    return ViewedRows({**terms, REFERENCE: time}, features)


AIWC = View(
    "aiwc",
    (
        "total_instruction_count", "workitems", "total_memory_footprint", "total_barriers_hit",
        "ninety_percent_memory_footprint", "global_memory_address_entropy",
        "local_memory_address_entropy_10", "median_instructions_to_barrier", "opcode",
        "total_unique_branch_instructions", "branch_entropy_yokota", "mean_simd_width",
        "branch_entropy_average_linear", "instructions_per_operand",
    ),
    _aiwc,
    counters=(
        "opcode", "granularity", "barriers_per_instruction", "instructions_per_operand",
        "total_instruction_count", "workitems", "operand_sum", "total_barriers_hit",
        "min_instructions_to_barrier", "max_instructions_to_barrier",
        "median_instructions_to_barrier", "max_simd_width", "mean_simd_width", "stddev_simd_width",
        "total_memory_footprint", "ninety_percent_memory_footprint",
        "global_memory_address_entropy", *(f"local_memory_address_entropy_{n}" for n in _NEAR),
        "total_unique_branch_instructions", "ninety_percent_branch_instructions",
        "branch_entropy_yokota", "branch_entropy_average_linear",
    ),
    work=("total_instruction_count", "workitems"),
)  # fmt: skip
_WORK = ("instructions", "l1_load_misses", "llc_load_misses")
PILOT = View("pilot", _WORK, _pilot, work=_WORK)
PLAIN = View("plain", (), _plain, work=("instructions", "threads"))
VIEWS = {view.name: view for view in (AIWC, PILOT, PLAIN)}


def fitting(rows: Rows) -> View:
    """Return the first of the views AIWC, PILOT and PLAIN whose counters ``rows`` have."""
    views = (AIWC, PILOT, PLAIN)
    return next(view for view in views if set(view.needs) <= set(rows.counters))


def check_counters(rows: Rows, counters: tuple[str, ...]) -> None:
    """Raise UsageError where ``rows`` has other counters than ``counters``, those of the
    training."""
    if rows.counters == counters:
        return
    if absent := [name for name in counters if name not in rows.counters]:
        raise UsageError(f"the counter {absent[0]!r}, which the model was trained on, is not given")
    unknown = [name for name in rows.counters if name not in counters]
    raise UsageError(
        f"the counter {unknown[0]!r} is unknown to the model"
        if unknown
        else "the counters are in another order than the model was trained on",
        hint=f"it was trained on: {', '.join(counters)}",
    )
