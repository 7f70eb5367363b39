"""Slow-downs on MIG slices: MISO and ParvaGPU, every model left out in turn."""

from __future__ import annotations

from lab.gate.part import Work
from lab.slices.run import MISO_TASK, PARVA_TASK, evaluate

METHODS = {
    "miso.counters": (MISO_TASK, "counters"),
    "miso.utilisation": (MISO_TASK, "utilisation"),
    "miso.time": (MISO_TASK, "time"),
    "miso.time-probe": (MISO_TASK, "time + probe"),
    "parva.sweep": (PARVA_TASK, "sweep"),
    "parva.sweep-probe": (PARVA_TASK, "sweep + probe"),
    "parva.sweep-family": (PARVA_TASK, "sweep, leaving out the family"),
    "parva.batches": (PARVA_TASK, "batches"),
    "parva.batches-probe": (PARVA_TASK, "batches + probe"),
}
COVERED = ("miso.counters", "parva.sweep", "parva.batches")
MEDIANS = ("miso.counters", "parva.sweep")


def figures(work: Work) -> dict[str, float]:
    """Mean errors of all methods, medians and coverage of those that are used most."""
    found = evaluate(work.seed, work.advance)
    by_name = {(one.task, one.method): one.figures for one in found.results}
    made = {f"{name}.mean": by_name[key].mean_error for name, key in METHODS.items()}
    made |= {f"{name}.median": by_name[METHODS[name]].median_error for name in MEDIANS}
    for name in COVERED:
        coverage = by_name[METHODS[name]].coverage_90
        made[f"{name}.coverage"] = float("nan") if coverage is None else coverage
    made["fits.said-but-failed"] = float(found.fits.said_but_failed)
    made["fits.refused-but-ran"] = float(found.fits.refused_but_ran)
    return made
