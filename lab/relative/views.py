"""Views: how counters of one source become cost terms and features of a workload.

``AIWC`` reads the architecture-independent counters of OpenCL kernels. ``PLAIN`` takes any counters
as they are, with ``instructions`` and ``threads`` as work where they are present.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows

LAUNCH, SERIAL, WORK, REFERENCE = "launch", "serial", "work", "reference"
"""Names of cost terms: launches, work of one thread, work of all threads, time on the reference."""
_LN2 = float(np.log(2.0))


@dataclass(frozen=True, slots=True)
class ViewedRows:
    """Cost terms and features computed from the counters of rows."""

    terms: dict[str, Floats]
    """[rows] log of the amount by each cost term that is known; launches are 0 where unknown."""
    features: Floats
    """[rows, features] natural logs, so that a difference of 1 is a factor of e; NaN: unknown."""


@dataclass(frozen=True, slots=True)
class View:
    """A way to turn the counters of one source into cost terms and features."""

    needs: tuple[str, ...]
    """Counters without which the view cannot be used."""
    look: Callable[[Rows, Floats], ViewedRows]
    """Returns terms and features from rows and their filled-in counter values."""

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


AIWC = View(
    (
        "total_instruction_count", "workitems", "total_memory_footprint", "total_barriers_hit",
        "ninety_percent_memory_footprint", "global_memory_address_entropy",
        "local_memory_address_entropy_10", "median_instructions_to_barrier", "opcode",
        "total_unique_branch_instructions", "branch_entropy_yokota", "mean_simd_width",
        "branch_entropy_average_linear", "instructions_per_operand",
    ),
    _aiwc,
)  # fmt: skip
PLAIN = View((), _plain)


def fitting(rows: Rows) -> View:
    """Return the view AIWC where ``rows`` have its counters, else PLAIN."""
    return AIWC if set(AIWC.needs) <= set(rows.counters) else PLAIN
