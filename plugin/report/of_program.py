"""Reports a program's ranking over platforms, by the shipped or a site's own cost model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from berth.pilot.plausible import is_contention
from berth.pilot.profile import Profile
from berth.pilot.units import MOST_SHOWN_FACTOR, format_bytes, format_seconds
from berth.plugin.report.of_forecast import (
    PlatformRow,
    doubts,
    prediction_data,
    predictions_table,
    sources_data,
    sources_part,
)
from berth.plugin.report.parts import Column, Part, Report, Table, data_of, interval
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis, Interval
from berth.predictor.families.program.work import missing_counters_sentence

if TYPE_CHECKING:
    from berth.predictor.families.program.explain import Bottleneck
    from berth.predictor.families.relative.bundle import RelativeModel
    from berth.predictor.families.relative.predictor import RelativePrediction


@dataclass(frozen=True, slots=True)
class ProgramRanking:
    """A program's predictions on the platforms, ranked, with the options of the request."""

    profile: Profile
    forecast: Forecast
    rows: Sequence[PlatformRow]
    names: Sequence[str]
    """Platforms that the user named: shown even if the program has no code for them."""
    size: float | None
    """Problem size that the user named; None: the measured one."""
    size_doubt: str | None
    notes_of_home: Sequence[str]
    reasons: Sequence[Bottleneck] = ()
    with_sources: bool = False

    @property
    def shown(self) -> list[PlatformRow]:
        """Return the rows to print: without platforms that lack code for the program, unless
        named."""
        return [row for row in self.rows if row.has_code or row.prediction.platform in self.names]


def program_report(ranking: ProgramRanking) -> Report:
    """Return the report of a program's ranking: platforms and reasons."""
    profile, rows = ranking.profile, ranking.shown
    at = f" at size {ranking.size:g}" if ranking.size is not None else ""
    nothing = "Nothing here is known well enough to act on; below the table is why."
    notes = _notes(ranking)
    parts = [
        Part(
            "",
            [nothing] if rows and not any(row.can_act for row in rows) else (),
            tables=[predictions_table("Platforms ranked", rows)],
            notes=notes,
        )
    ]
    if ranking.with_sources:
        names = dict.fromkeys(row.prediction.platform for row in rows)
        parts.append(sources_part(ranking.forecast, names))
        parts += [Part("", [reason.sentence()]) for reason in ranking.reasons]
    return Report(
        f"{profile.name}{at}, measured on {profile.platform}; bundle {ranking.forecast.bundle}",
        "",
        parts,
    )


def _notes(ranking: ProgramRanking) -> list[str]:
    rows, every = ranking.shown, ranking.rows
    predictions = [row.prediction for row in rows]
    notes = []
    if left_out := len(every) - len(rows):
        notes.append(
            f"Left out: {left_out} GPU platforms that the program has no code for; name one with "
            "--platform to see the time of an equivalent GPU build."
        )
    notes += doubts(predictions)
    notes += ranking.notes_of_home
    notes += [f"pilot: {text}" for text in filter(is_contention, ranking.profile.warnings)]
    peak = ranking.profile.peak_memory_bytes
    if ranking.size is None and peak is not None:
        notes.append(f"data: the times are of data as the pilot's, {format_bytes(peak)} in memory.")
    elif any(p.runtime_s.high > MOST_SHOWN_FACTOR * p.runtime_s.mid for p in predictions):
        notes.append("size: the sizes that were run leave its time open: run larger ones")
    if lacking := missing_counters_sentence(ranking.profile):
        notes.append(f"counters: {lacking}.")
    if ranking.size_doubt is not None:
        notes.append(f"size: {ranking.size_doubt}")
    if not all(row.has_code for row in rows):
        notes.append(
            "no code for it: the program does not run there; the time is of an equivalent GPU "
            "build."
        )
    elif any(p.gpus and p.basis is not Basis.MEASURED for p in predictions):
        notes.append("GPU rows are of an equivalent GPU build of the program.")
    if any(p.basis is Basis.PRIOR and not p.gpus for p in predictions):
        notes.append(
            "prior: the program's own time by the speeds of the cores; no program was timed there."
        )
    if any(p.basis is Basis.PRIOR and p.gpus for p in predictions):
        notes.append("prior, GPUs: by the rates of the hardware; nothing was timed there.")
    return notes


def program_data(ranking: ProgramRanking) -> dict[str, Any]:
    """Return a program's ranking, for JSON."""
    profile, forecast = ranking.profile, ranking.forecast
    document: dict[str, Any] = {
        "workload": profile.name,
        "reference": profile.platform,
        "bundle": forecast.bundle,
        "unit": forecast.unit.value,
        "families": list(forecast.families),
        "size": ranking.size or profile.workload.size,
        "predictions": [prediction_data(forecast, row) for row in ranking.rows],
    }
    if ranking.reasons:
        document["explanations"] = [reason_data(reason) for reason in ranking.reasons]
    return document


def reason_data(reason: Bottleneck) -> dict[str, Any]:
    """Return, for JSON, what limits a program on one platform."""
    return {
        "platform": reason.platform,
        "sentence": reason.sentence(),
        "bound": reason.bound.value,
        "limit": reason.limit,
        "limit_share": reason.limit_share,
    }


@dataclass(frozen=True, slots=True)
class _Bounds:
    """An interval whose ends may be unknown."""

    low: float | None
    mid: float
    high: float | None


def _trusted(known: Interval, prediction: RelativePrediction) -> Interval | _Bounds:
    """Return the interval, without its ends where the cost model has no basis for them."""
    return known if _has_width(prediction) else _Bounds(None, known.mid, None)


def _has_width(prediction: RelativePrediction) -> bool:
    from berth.predictor.families.relative.predictor import NO_WIDTHS  # noqa: PLC0415 - slow

    return prediction.abstained != NO_WIDTHS


def _relative(title: str, key: str, name: str, unit: str) -> Column[RelativePrediction]:
    """Make a column of intervals whose ends may be unknown."""
    write = format_seconds if unit == "s" else "{:.3g}x".format
    column: Column[RelativePrediction] = interval(
        title, key, lambda row: getattr(row, name), write, unit=unit
    )

    def words(row: RelativePrediction) -> str:
        known = getattr(row, name)
        return column.text(known) if _has_width(row) else f"{write(known.mid)} (not known)"

    return Column(
        title, key, lambda row: _trusted(getattr(row, name), row), unit=unit, ends=column.ends,
        words=words, kind={"low": float | None, "mid": float, "high": float | None},
    )  # fmt: skip


RELATIVE: tuple[Column[RelativePrediction], ...] = (
    Column("Platform", "platform", lambda row: row.platform),
    _relative("Speedup", "speedup", "speedup", ""),
    _relative("Time", "runtime_s", "runtime_s", "s"),
    Column("Basis", "basis", lambda row: row.basis.value,
           words=lambda row: row.basis.value + (" (abstains)" if row.abstained else "")),
)  # fmt: skip
"""The columns of a site's own cost model's predictions."""


@dataclass(frozen=True, slots=True)
class RelativeRanking:
    """A program's predictions on the platforms of a site's own cost model, ranked."""

    profile: Profile
    model: RelativeModel
    predictions: Sequence[RelativePrediction]
    missing: Sequence[str]
    """Counters that the program lacks and that were taken for usual."""
    forecast: Forecast | None
    """Forecast for the platforms that Berth's own data include; None: they include none."""
    with_sources: bool = False


def relative_usable(prediction: RelativePrediction) -> bool:
    """Return whether the prediction is reliable enough to act on: neither a prior nor an
    abstention."""
    return prediction.abstained is None and prediction.basis is not Basis.PRIOR


def relative_report(ranking: RelativeRanking) -> Report:
    """Return the report of a ranking by a site's own cost model."""
    predictions = ranking.predictions
    doubtful = [not relative_usable(prediction) for prediction in predictions]
    reasons = list(dict.fromkeys(p.abstained for p in predictions if p.abstained))
    notes = [f"abstains: {reason}" for reason in reasons]
    if ranking.missing:
        notes.append(f"not counted, so taken for usual: {', '.join(ranking.missing)}")
    table = Table("Platforms ranked", RELATIVE, predictions, doubtful)
    parts = [Part("", tables=[table], notes=notes)]
    if ranking.with_sources and ranking.forecast is not None:
        known = ranking.forecast.curves
        names = [p.platform for p in predictions if p.platform in known]
        parts.append(sources_part(ranking.forecast, names))
    profile = ranking.profile
    headline = f"{profile.name}, measured on {profile.platform}; bundle {ranking.model.id}"
    return Report(headline, "", parts)


def relative_data(ranking: RelativeRanking) -> dict[str, Any]:
    """Return a ranking by a site's own cost model, for JSON."""
    rows = [
        {**data_of(RELATIVE, prediction), "abstained": prediction.abstained}
        for prediction in ranking.predictions
    ]
    for row in rows if ranking.forecast is not None else ():
        row["sources"] = sources_data(ranking.forecast, row["platform"])
    return {
        "workload": ranking.profile.name,
        "reference": ranking.profile.platform,
        "bundle": ranking.model.id,
        "missing_counters": list(ranking.missing),
        "predictions": rows,
    }
