"""What a decision is based on: fit alone, the site's ratios, the program's own runs, or a pilot."""

from __future__ import annotations

from berth.policies.codes import BY_FIT, PLACES, Ground
from berth.policies.fit_lists import FitList
from berth.policies.values import Ranked
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis


def ground_of(code: str, forecast: Forecast | None, chosen: Ranked | None) -> Ground | None:
    """Return the ground of a decision with this code; None: it chose no candidate.

    ``chosen``: the chosen candidate, with the basis of its prediction.
    """
    if code not in PLACES or chosen is None:
        return None
    if forecast is None or code in BY_FIT:
        return Ground.FIT
    if forecast.kind == "history":
        if chosen.basis is Basis.PRIOR:
            return Ground.KERNELS
        return Ground.RUNS if chosen.basis is Basis.MEASURED else Ground.POPULATION
    return Ground.MEASURED if forecast.kind == "program" else Ground.DESCRIBED


def ground_of_ratios(placed: FitList) -> Ground:
    """Return the ground of a list by fit whose order, or whose length, is by the ratios between
    kinds of hardware: kernels where nothing but benchmark kernels tells some of them."""
    listed = {fit.candidate.name for fit in placed.fits}
    by_kernels = any(r.basis is Basis.PRIOR for r in placed.ranked if r.candidate in listed)
    return Ground.KERNELS if by_kernels else Ground.POPULATION
