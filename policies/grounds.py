"""What a decision is based on: fit alone, the site's ratios, the program's own runs, or a pilot."""

from __future__ import annotations

from berth.policies.codes import BY_FIT, PLACES, Ground
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
        return Ground.RUNS if chosen.basis is Basis.MEASURED else Ground.POPULATION
    return Ground.MEASURED if forecast.kind == "program" else Ground.DESCRIBED
