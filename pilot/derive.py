"""Derived counters: all formulas that compute counters from measured counters.

A derived counter exists if all its operands have values. Its quality is ``derived``, its note
joins the notes of its operands, and it is ``complete`` only if all operands are. From an
interrupted run (``complete`` false) ratios are still meaningful, totals are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from berth.pilot.profile import Measurement, Quality

LINE_BYTES = 64
NO_TOTALS = ("_ratio", "_intensity", "_per_cycle", "_levels")
"""Name endings of counters that are not totals: they do not grow with the length of the run."""
WRITE_MISS_LINES = 2
"""Cache lines moved per write miss: the line is fetched (write-allocate) and later written back."""

Formula = Callable[..., float]

FORMULAS: tuple[tuple[str, tuple[str, ...], Formula], ...] = (
    ("fp_ops", ("fp32_ops", "fp64_ops"), lambda single, double: single + double),
    (
        "dram_bytes",
        ("llc_load_misses", "llc_store_misses"),
        lambda loads, stores: LINE_BYTES * (loads + WRITE_MISS_LINES * stores),
    ),
    ("int_arith_ratio", ("int_ops", "instructions"), lambda ints, all_: ints / all_),
    ("fp32_ratio", ("fp32_instructions", "instructions"), lambda single, all_: single / all_),
    ("fp64_ratio", ("fp64_instructions", "instructions"), lambda double, all_: double / all_),
    (
        "float_arith_ratio",
        ("fp32_instructions", "fp64_instructions", "instructions"),
        lambda single, double, all_: (single + double) / all_,
    ),
    ("load_ratio", ("loads", "instructions"), lambda loads, all_: loads / all_),
    ("store_ratio", ("stores", "instructions"), lambda stores, all_: stores / all_),
    (
        "memory_ratio",
        ("loads", "stores", "instructions"),
        lambda loads, stores, all_: (loads + stores) / all_,
    ),
    ("branch_ratio", ("branches", "instructions"), lambda branches, all_: branches / all_),
    (
        "control_ratio",
        ("control_instructions", "instructions"),
        lambda control, all_: control / all_,
    ),
    ("branch_miss_ratio", ("branch_misses", "branches"), lambda misses, all_: misses / all_),
    (
        "cache_miss_ratio",
        ("l1_load_misses", "l1_store_misses", "loads", "stores"),
        lambda load_misses, store_misses, loads, stores: (
            (load_misses + store_misses) / (loads + stores - load_misses - store_misses)
        ),
    ),
    ("arithmetic_intensity", ("fp_ops", "dram_bytes"), lambda flops, bytes_: flops / bytes_),
    ("instructions_per_cycle", ("instructions", "cycles"), lambda done, cycles: done / cycles),
)


def derive(measured: Mapping[str, Measurement]) -> dict[str, Measurement]:
    """Return the measured counters and all derived counters that can be computed from them."""
    result = dict(measured)
    for name, operands, formula in FORMULAS:
        present = result.get(name)
        if present is not None and present.value is not None:
            continue
        measurement = _apply(operands, formula, result)
        if measurement is not None:
            result[name] = measurement
    return result


def _apply(
    operands: tuple[str, ...], formula: Formula, known: Mapping[str, Measurement]
) -> Measurement | None:
    operand_values = [known.get(operand) for operand in operands]
    used = [measurement for measurement in operand_values if measurement is not None]
    values = [measurement.value for measurement in used]
    if len(values) < len(operands) or any(value is None for value in values):
        return None
    try:
        value = formula(*values)
    except ZeroDivisionError:
        return missing("derived", "its denominator is zero in this run")
    if value < 0:
        return missing("derived", "its operands come from runs that do not fit together")
    notes = list(dict.fromkeys(m.note for m in used if m.note))
    return Measurement(
        value=value,
        quality=Quality.DERIVED,
        source="derived",
        note="; ".join(notes) or None,
        complete=all(m.complete for m in used),
    )


def missing(source: str, why: str) -> Measurement:
    """Return a missing Measurement with the reason ``why`` as its note."""
    return Measurement(value=None, quality=Quality.MISSING, source=source, note=why)
