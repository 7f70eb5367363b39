"""Slow-downs on MIG slices: MISO and ParvaGPU, every model left out in turn."""

from __future__ import annotations

from lab.gate.part import Work
from lab.slices.mig_slices import MISO, PARVA, all_results
from lab.slices.slice_cases import fits_figures

METHODS = {
    "miso.use": (MISO, "use"),
    "miso.gpu-use": (MISO, "gpu-use"),
    "miso.typical": (MISO, "typical"),
    "miso.typical-probe": (MISO, "typical + probe"),
    "parva.sweep": (PARVA, "sweep"),
    "parva.sweep-probe": (PARVA, "sweep + probe"),
    "parva.sweep-family": (PARVA, "sweep, leaving out the family"),
    "parva.pair": (PARVA, "pair"),
    "parva.batches": (PARVA, "batches"),
    "parva.batches-probe": (PARVA, "batches + probe"),
}
COVERED = MEDIANS = ("miso.use", "parva.sweep", "parva.pair", "parva.batches")


def figures(work: Work) -> dict[str, float]:
    """Return mean errors of all methods, medians and coverage of those that are used most."""
    results = all_results(work.advance)
    by_name = {(one.split, one.family): one.figures for one in results}
    made = {f"{name}.mean": by_name[key].mean_error for name, key in METHODS.items()}
    made |= {f"{name}.median": by_name[METHODS[name]].median_error for name in MEDIANS}
    for name in COVERED:
        coverage = by_name[METHODS[name]].coverage
        made[f"{name}.coverage"] = float("nan") if coverage is None else coverage
    made["fits.said-but-failed"] = float(fits_figures().predicted_but_failed)
    made["fits.refused-but-ran"] = float(fits_figures().refused_but_ran)
    return made
