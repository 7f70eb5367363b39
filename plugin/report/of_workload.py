"""Reports a workload: its time and bottleneck on each platform, and which measurement would
help."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from berth.pilot.errors import BerthError
from berth.pilot.platform import Platform, PlatformKind
from berth.pilot.units import format_seconds
from berth.plugin.forecasting import platforms_for, reference_of
from berth.plugin.pictures.charts import TimeBar, ranked_times
from berth.plugin.report.of_forecast import (
    PlatformRow,
    best_points,
    doubts,
    per,
    predictions_table,
    rows_of,
    sources_text,
    usable,
    without_code,
)
from berth.plugin.report.of_model import operators_table
from berth.plugin.report.parts import Part, Picture, Report, Table, drawn, part
from berth.plugin.site import Site
from berth.plugin.workloads.files import amount_text, title
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.prediction import Prediction
from berth.predictor.core.workload import Workload

EXPLAINED = 5
"""Maximum number of platforms whose prediction is explained."""
OPERATORS = 12
"""Maximum number of kinds of operators in the table beside the roofline."""


@dataclass(frozen=True)
class WorkloadRanking:
    """A workload's forecast with the forecaster, platforms and site from which it was made."""

    workload: Workload
    forecast: Forecast
    forecaster: Forecaster
    platforms: Mapping[str, Platform]
    reference: str | None
    rows: Sequence[Prediction]
    """The prediction at the fastest number of cores or GPUs on each platform, ranked."""
    site: Site | None
    no_code: frozenset[str] = frozenset()
    """Platforms for which the program has no code."""

    def can_act(self, prediction: Prediction) -> bool:
        """Return whether the program can run there and the prediction is reliable enough to act
        on."""
        return usable(prediction) and prediction.platform not in self.no_code

    def table_rows(self) -> list[PlatformRow]:
        """Return the rows of a table of platforms, with costs."""
        currency = "" if self.site is None else self.site.currency
        return rows_of(self.forecast, self.rows, self.no_code, self.platforms, currency)


def rank_workload(workload: Workload, forecaster: Forecaster, site: Site | None) -> WorkloadRanking:
    """Return a workload's predictions on every known platform, ranked. Raises BerthError where
    nothing can be predicted."""
    platforms, reference = platforms_for(site), reference_of(site)
    forecast = forecaster.forecast(workload, platforms, platforms, reference=reference)
    no_code = without_code(workload.runs_on.targets, workload.runs_on.architecture, platforms)
    rows = best_points(forecast, no_code)
    return WorkloadRanking(
        workload, forecast, forecaster, platforms, reference, rows, site, no_code
    )


def workload_report(ranking: WorkloadRanking) -> Report:
    """Return the report of a workload: ranking, reasons and MIG slices."""
    workload, rows = ranking.workload, ranking.rows
    parts = [_ranking(ranking), part("Why", lambda: _why(ranking))]
    slices = _slices(ranking)
    if slices:
        parts.append(Part("MIG slices", slices))
    what = f"{workload.name}: {title(workload.kind)}"
    if workload.amount.count is not None:
        what += f", {amount_text(workload.amount)}"
    first = next(filter(ranking.can_act, rows), None)
    if first is None:
        lead = f"{what}. No platform's time is known well enough to act on."
    else:
        time = first.runtime_s
        lead = (
            f"{what}. Fastest where one can act on it: {first.platform}, "
            f"{format_seconds(time.mid)} ({format_seconds(time.low)} to "
            f"{format_seconds(time.high)}) {per(ranking.forecast)}."
        )
    return Report(f"Workload {workload.name}", lead, parts)


def time_rows(
    rows: Sequence[Prediction], can_act: Callable[[Prediction], bool] = usable
) -> list[TimeBar]:
    """Return predictions as rows of the time chart."""
    return [
        TimeBar(p.platform, (p.runtime_s.low, p.runtime_s.mid, p.runtime_s.high), not can_act(p))
        for p in rows
    ]


def _ranking(ranking: WorkloadRanking) -> Part:
    shown = time_rows(ranking.rows, ranking.can_act)
    return Part(
        "Platforms ranked",
        [
            *doubts(ranking.rows),
            "Rows in grey are only guesses (a prior, or an abstention), or platforms that the "
            "program has no code for: Berth does not act on them.",
        ],
        drawn(
            "Predicted times with their 90 % intervals, fastest first",
            lambda: ranked_times(shown),
        )
        if shown
        else (),
        [
            predictions_table(
                f"Times {per(ranking.forecast)}, with 90 % intervals", ranking.table_rows()
            )
        ],
    )


def _why(ranking: WorkloadRanking) -> Part:
    lines = []
    best = ranking.rows[:EXPLAINED]
    each = ranking.forecaster.explain_each(
        ranking.workload,
        [ranking.platforms[prediction.platform] for prediction in best],
        ranking.platforms,
        reference=ranking.reference,
    )
    for prediction, families in zip(best, each, strict=True):
        sentences = (
            [f"limited by {prediction.bound.value}"] if prediction.bound != "unknown" else []
        )
        sentences += [explanation.summary for explanation in families.values()]
        sources = [line.strip() for line in sources_text(ranking.forecast, prediction.platform)]
        if len(sources) > 1:
            sentences.append("combined from " + "; ".join(sources))
        if sentences:
            lines.append(
                f"{prediction.platform}: " + "; ".join(s.rstrip(".") for s in sentences) + "."
            )
    return Part("Why", lines or ["Nothing is known of why."], *_explained(ranking))


def _explained(ranking: WorkloadRanking) -> tuple[tuple[Picture, ...], Sequence[Table[Any]]]:
    document: Any = ranking.workload.document
    best = [prediction for prediction in ranking.rows if ranking.can_act(prediction)] or list(
        ranking.rows
    )
    try:
        if ranking.workload.kind == "model-graph" and document.mode == "inference":
            return _roofline(ranking, document, best)
    except BerthError:  # the report is complete without the explanation
        return (), ()
    return (), ()


def _roofline(
    ranking: WorkloadRanking, document: Any, best: Sequence[Prediction]
) -> tuple[tuple[Picture, ...], Sequence[Table[Any]]]:
    # ruff: noqa: PLC0415 - other kinds do without
    from berth.plugin.pictures import roofline as picture
    from berth.predictor.families.graph.model import graph_of
    from berth.predictor.graphs.roofline import roofline
    from berth.predictor.hardware.device import Numbers
    from berth.predictor.hardware.roofs import roofs

    graph = graph_of(document)
    names = [best[0].platform]
    known = roofs({name: ranking.platforms[name] for name in names})
    numbers = Numbers(document.precision) if document.precision else None
    lines = [roofline(graph, known[name], numbers) for name in names if name in known]
    words = f"The operators of {document.name} under the roofs of {' and '.join(names)}"
    if not ranking.forecast.whole_job:  # the time that the ranking has, not the roofline's alone
        lines = [replace(line, seconds=best[0].runtime_s) for line in lines]
    tables = [operators_table(line, OPERATORS) for line in lines]
    return drawn(words, lambda: picture.svg(document.name, lines)), tables


def _slices(ranking: WorkloadRanking) -> list[str]:
    smallest: dict[str, tuple[int, str]] = {}
    for prediction in ranking.rows:
        platform = ranking.platforms[prediction.platform]
        if platform.kind is not PlatformKind.MIG or platform.parent is None:
            continue
        if prediction.memory.fits_gpus(platform.memory_bytes):
            fitting = (int(platform.memory_bytes), prediction.platform)
            smallest[platform.parent] = min(fitting, smallest.get(platform.parent, fitting))
    times = {prediction.platform: prediction.runtime_s for prediction in ranking.rows}
    return [
        f"{gpu}: the smallest slice with enough GPU memory is {name} "
        f"({format_seconds(times[name].mid)} {per(ranking.forecast)})."
        for gpu, (_, name) in sorted(smallest.items())
    ]
