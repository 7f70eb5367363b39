"""The view *Predict*: a workload's time on every platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flask import Blueprint, render_template, request

from berth.pilot.errors import BerthError
from berth.plugin.amounts import amount_text
from berth.plugin.cli.forecast_text import HEADER, best_points, cells, doubts, per, usable
from berth.plugin.forecasting import platforms_for, reference_of
from berth.plugin.pictures.times import Row
from berth.plugin.ui.context import Context, context
from berth.plugin.ui.pictures import picture
from berth.plugin.ui.tables import Table
from berth.plugin.ui.workload_form import WorkloadForm
from berth.plugin.workload_files import title
from berth.predictor.core.prediction import Prediction
from berth.predictor.core.workload import Workload

view = Blueprint("predict", __name__)
EXPLAINED = 5
"""Platforms whose prediction is explained."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What the page shows of a forecast."""

    sentence: str
    table: Table
    picture: str | None
    doubts: list[str]
    reasons: list[tuple[str, list[str]]]
    """By platform: sentences."""


@view.route("/predict", methods=["GET", "POST"])
def predict() -> str:
    """The form, and the ranking of what was sent."""
    here = context()
    form = WorkloadForm(request.values)
    shown, problem = None, None
    try:
        store = here.store()
        form.named(store)
        if form.asked() and form.validate():
            shown = _shown(here, form.read(store))
    except BerthError as error:
        problem = error
    return render_template("predict.html", form=form, shown=shown, problem=problem)


def _shown(here: Context, workload: Workload) -> Shown:
    site = here.site()
    platforms = platforms_for(site)
    reference = reference_of(site)
    forecaster = here.forecaster()
    forecast = forecaster.forecast(workload, platforms, platforms, reference=reference)
    rows = best_points(forecast)
    reasons = []
    for one in rows[:EXPLAINED]:
        found = forecaster.explain(
            workload, platforms[one.platform], platforms, reference=reference
        )
        sentences = [f"limited by {one.bound.value}"] if one.bound != "unknown" else []
        sentences += [explanation.summary for explanation in found.values()]
        if sentences:
            reasons.append((one.platform, sentences))
    table = Table(
        f"Platforms ranked, times {per(forecast)}",
        [word.capitalize() for word in HEADER],
        [cells(forecast, one) for one in rows],
        doubtful=[not usable(one) for one in rows],
    )
    drawn = [
        Row(p.platform, (p.runtime_s.low, p.runtime_s.mid, p.runtime_s.high), not usable(p))
        for p in rows
    ]
    return Shown(_sentence(workload, rows), table, picture(drawn), doubts(rows), reasons)


def _sentence(workload: Workload, rows: Sequence[Prediction]) -> str:
    what = f"{workload.name}: {title(workload.kind)}, {amount_text(workload.amount)}"
    first = next(filter(usable, rows), None)
    if first is None:
        return f"{what}. No platform's time is known well enough to act on."
    return f"{what}. Fastest where one can act on it: {first.platform}."
