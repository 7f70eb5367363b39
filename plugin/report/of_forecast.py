"""Reports a forecast: platforms by predicted time, those whose prediction is too uncertain last."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from berth.pilot.platform import Platform
from berth.pilot.units import counted
from berth.plugin.report.parts import (
    THREE,
    Column,
    Part,
    Report,
    Table,
    at_most,
    data_of,
    ends_of,
    interval,
    worth_showing,
)
from berth.plugin.workloads.files import amount_text, title
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis, Interval, MemoryUse, Prediction
from berth.predictor.core.workload import Workload

if TYPE_CHECKING:
    from berth.predictor.core.family import Explanation

_JOULES = ((1e9, "GJ"), (1e6, "MJ"), (1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ"))


@dataclass(frozen=True, slots=True)
class PlatformRow:
    """A row of a table of platforms: the prediction, its cost, and whether the program has code for
    the platform."""

    prediction: Prediction
    source: str | None
    """The source of the time, with weights where several sources are combined."""
    has_code: bool = True
    """Whether the program has code for the platform."""
    cost: Interval | None = None
    """Cost of the job on the platform, in ``currency``; None: the platform has no price."""
    currency: str = ""

    @property
    def can_act(self) -> bool:
        """Return whether the program has code for the platform and the prediction is reliable
        enough to act on."""
        return self.has_code and usable(self.prediction)

    @property
    def memory(self) -> MemoryUse:
        """Return the predicted memory use; empty where it is unknown."""
        return self.prediction.memory or MemoryUse()


def _with(row: PlatformRow) -> str:
    prediction = row.prediction
    units = (
        counted(prediction.gpus, "GPU") if prediction.gpus else counted(prediction.cores, "core")
    )
    return units if prediction.nodes <= 1 else f"{prediction.nodes} nodes, {units}"


def _energy(row: PlatformRow) -> str | None:
    """Return the energy with its interval as text, in one unit such as kJ; None: unknown."""
    energy = row.prediction.energy_j
    if energy is None:
        return None
    fitting = ((factor, unit) for factor, unit in _JOULES if energy.mid >= factor)
    factor, unit = next(fitting, _JOULES[-1])
    low, mid, high = (f"{end / factor:.3g}" for end in ends_of(energy))
    return f"{mid} {unit} ({low} to {high})"


def _cost(row: PlatformRow) -> str | None:
    if row.cost is None:
        return None
    low, mid, high = (f"{end:.2g}" for end in ends_of(row.cost))
    return f"{mid} {row.currency} ({low} to {high})".replace("  ", " ")


def _basis(row: PlatformRow) -> str:
    prediction = row.prediction
    abstains = " (abstains)" if prediction.abstained else ""
    return prediction.basis.value + abstains + ("" if row.has_code else " (no code for it)")


PREDICTIONS: tuple[Column[PlatformRow], ...] = (
    Column("Platform", "platform", lambda row: row.prediction.platform),
    Column("With", "units", lambda row: row.prediction.gpus or row.prediction.cores, words=_with,
           kind=float),
    interval("Time", "runtime_s", lambda row: row.prediction.runtime_s),
    interval("Speedup", "speedup", lambda row: row.prediction.speedup, "{:.3g}x".format, unit=""),
    at_most("Host memory <=", "host_memory_bytes", lambda row: row.memory.host_bytes),
    at_most("GPU memory <=", "gpu_memory_bytes", lambda row: row.memory.gpu_bytes),
    Column("Energy", "energy_j", lambda row: row.prediction.energy_j, unit="J", ends=THREE,
           words=_energy, is_optional=True, is_wide=True),
    Column("Cost", "cost", lambda row: row.cost, ends=THREE, words=_cost, is_optional=True,
           is_wide=True),
    Column("Limited by", "bound", lambda row: row.prediction.bound.value),
    Column("Basis", "basis", lambda row: row.prediction.basis.value, words=_basis),
    Column("From", "source", lambda row: row.source),
    Column("Has code", "has_code", lambda row: row.has_code, for_people=False, kind=bool),
    Column("Abstains", "abstained", lambda row: row.prediction.abstained, for_people=False),
)  # fmt: skip
"""The columns of predictions by platform."""


def rows_of(
    forecast: Forecast,
    predictions: Iterable[Prediction],
    no_code: Container[str] = (),
    prices: Mapping[str, Platform] | None = None,
    currency: str = "",
) -> list[PlatformRow]:
    """Return the table rows of these predictions; ``prices``: platforms with their prices, to show
    costs in ``currency``."""
    rows = []
    for prediction in predictions:
        platform = prediction.platform
        price = None if prices is None else prices[platform].price_per_hour
        gpus = float(prediction.gpus or 1)
        cost = None if price is None else prediction.runtime_s.scaled(price * gpus / 3_600.0)
        rows.append(
            PlatformRow(
                prediction,
                forecast.source_of(platform) or None,
                platform not in no_code,
                cost,
                currency,
            )
        )
    return rows


def predictions_table(caption: str, rows: Sequence[PlatformRow]) -> Table[PlatformRow]:
    """Return a table with a line for each platform, unreliable predictions marked as doubtful."""
    doubtful = [not row.can_act for row in rows]
    return Table(caption, worth_showing(PREDICTIONS, rows), rows, doubtful)


def usable(prediction: Prediction) -> bool:
    """Return whether the prediction is reliable enough to act on: neither a prior (an estimate
    without measurements) nor an abstention."""
    return prediction.abstained is None and prediction.basis is not Basis.PRIOR


def without_code(
    targets: Iterable[str], architecture: str, platforms: Mapping[str, Platform]
) -> frozenset[str]:
    """Return the platforms that cannot run a program built for these targets and this
    architecture."""
    built_for = set(targets)
    return frozenset(
        name
        for name, platform in platforms.items()
        if built_for.isdisjoint(platform.targets) or platform.architecture != architecture
    )


def ranked(rows: Sequence[Prediction], no_code: Container[str] = ()) -> list[Prediction]:
    """Return the predictions sorted: reliable ones by time, then the others by time, then platforms
    that the program has no code for."""
    return sorted(
        rows,
        key=lambda p: (p.platform in no_code, not usable(p), p.runtime_s.mid, p.platform),
    )


def best_points(forecast: Forecast, no_code: Container[str] = ()) -> list[Prediction]:
    """Return, for each platform, the prediction at the number of cores or GPUs with the shortest
    time; the platforms are ranked."""
    return ranked(
        [
            min(curve.points, key=lambda p: (p.runtime_s.mid, p.cores + p.gpus))
            for curve in forecast.curves.values()
        ],
        no_code,
    )


def per(forecast: Forecast) -> str:
    """Return the unit of the forecast's times as text: ``per job``, ``per step`` ..."""
    return f"per {forecast.unit.value}"


def doubts(predictions: Iterable[Prediction]) -> list[str]:
    """Return lines with the reasons why predictions abstain, each reason once."""
    reasons = dict.fromkeys(p.abstained for p in predictions if p.abstained)
    return [f"abstains: {reason}" for reason in reasons]


def sources_text(forecast: Forecast, platform: str) -> list[str]:
    """Return a line for each source of a platform's prediction, the largest weight first."""
    return [
        f"{share.weight:4.0%}  {share.source}"
        + (f" ({share.situation})" if share.situation else "")
        for share in forecast.sources.get(platform, ())
    ]


def sources_part(forecast: Forecast, platforms: Iterable[str]) -> Part:
    """Return the report section that lists the sources of each platform's time, with their
    weights."""
    lines = [
        f"{name}: {line.strip()}" for name in platforms for line in sources_text(forecast, name)
    ]
    return Part("Sources of each time, with their weights", lines)


def sources_data(forecast: Forecast | None, platform: str) -> list[dict[str, Any]]:
    """Return a prediction's sources and their weights, for JSON."""
    shares = () if forecast is None else forecast.sources.get(platform, ())
    return [
        {
            "source": share.source,
            "weight": share.weight,
            "log_width": share.log_width,
            "situation": share.situation,
        }
        for share in shares
    ]


def prediction_data(forecast: Forecast, row: PlatformRow) -> dict[str, Any]:
    """Return one platform's prediction and its sources, for JSON."""
    prediction = row.prediction
    return {
        **data_of(PREDICTIONS, row),
        "nodes": prediction.nodes,
        "cores": prediction.cores,
        "gpus": prediction.gpus,
        "sources": sources_data(forecast, prediction.platform),
    }


def forecast_data(forecast: Forecast) -> dict[str, Any]:
    """Return a forecast and its best point on each platform, ranked, for JSON."""
    rows = rows_of(forecast, best_points(forecast))
    return {
        "workload": forecast.workload,
        "kind": forecast.kind,
        "unit": forecast.unit.value,
        "bundle": forecast.bundle,
        "families": list(forecast.families),
        "reference": forecast.reference_platform,
        "predictions": [prediction_data(forecast, row) for row in rows],
    }


def forecast_report(
    workload: Workload,
    forecast: Forecast,
    explanations: Mapping[str, Mapping[str, Explanation]],
) -> Report:
    """Return the report of a workload's forecast; ``explanations``: by platform and model
    family."""
    predictions = best_points(forecast)
    table = predictions_table(f"Times {per(forecast)}", rows_of(forecast, predictions))
    parts = [Part("", tables=[table], notes=doubts(predictions))]
    for platform, by_family in explanations.items():
        summaries = [explanation.summary for explanation in by_family.values()]
        parts.append(Part(platform, [*sources_text(forecast, platform), *summaries]))
    headline = (
        f"{workload.name}: {title(workload.kind)}, {amount_text(workload.amount)}; times "
        f"{per(forecast)}; bundle {forecast.bundle or 'none'}"
    )
    return Report(headline, "", parts)


def explained_data(
    forecast: Forecast, explanations: Mapping[str, Mapping[str, Explanation]]
) -> dict[str, Any]:
    """Return the forecast with its explanations, for JSON."""
    document = forecast_data(forecast)
    if explanations:
        document["explanations"] = [
            {"platform": platform, "family": family, "summary": explanation.summary}
            for platform, by_family in explanations.items()
            for family, explanation in by_family.items()
        ]
    return document
