"""``berth predict PROFILE --bundle RELATIVE``: a site's own platforms from one run's counters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.pilot.units import format_seconds
from berth.plugin.cli.output.forecast_text import explain_sources, sources_json
from berth.plugin.cli.output.reasons import reason_document
from berth.plugin.cli.predict.asked import Asked
from berth.plugin.cli.predict.elsewhere import as_document, in_words, read_elsewhere
from berth.plugin.pictures import explained
from berth.plugin.report.terminal import columns
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis, Interval
from berth.predictor.families.program.predictor import usable_cores
from berth.predictor.families.relative import SCHEMA
from berth.predictor.families.relative.bundle import RelativeModel, load
from berth.predictor.families.relative.explain import AXES, SHARES, RelativeExplanation, explain_row
from berth.predictor.families.relative.predictor import NO_TRUST, Answer, RelativePrediction, answer
from berth.predictor.families.relative.rows import row_of, values_of


def predict_relative(asked: Asked) -> None:
    """Rank the bundle's platforms for a program by predicted time.

    Of platforms that Berth knows the time is the forecast's, in which the bundle is one source.
    """
    asked.check("a second file", "--known", "--probe", "--picture")
    measured, model = asked.workload.document, load(asked.bundles[SCHEMA])
    assert isinstance(measured, Profile)  # noqa: S101 - by its kind
    manifest = model.manifest
    places = dict.fromkeys(manifest.platforms)
    runs = read_elsewhere(measured, asked.known, asked.others, places, asked.stored)
    seconds = {name: run.runtime_s.mid for name, run in runs.items()}
    row = row_of(measured, manifest.counters, manifest.platforms, seconds)
    beside = values_of(measured, manifest.constants or ())
    found = answer(model, row, list(asked.names), beside)
    here = [p.platform for p in found.predictions if p.platform in asked.platforms]
    forecast = asked.forecast(here) if here and not runs else None
    predicted = [
        _from(forecast, p, measured, asked.platforms[p.platform])
        if forecast is not None and p.platform in asked.platforms
        else p
        for p in found.predictions
    ]
    ranking = sorted(predicted, key=lambda p: (not _usable(p), p.runtime_s.mid, p.platform))
    advice = found.advice() if asked.probe else None
    reasons: list[RelativeExplanation] = []
    if asked.why or asked.picture is not None:
        order = {p.platform: index for index, p in enumerate(ranking)}
        reasons = explain_row(model, row, tuple(order))
        reasons.sort(key=lambda reason: order[reason.platform])
    if asked.as_json:
        document = _document(measured, model, found, ranking)
        for line in document["predictions"] if forecast is not None else ():
            line["sources"] = sources_json(forecast, line["platform"]) if forecast else []
        if reasons:
            document["explanations"] = [reason_document(reason) for reason in reasons]
        if advice is not None:
            document["probe"] = as_document(advice)
        click.echo(json.dumps(document, indent=2))
    else:
        _show(measured, model, found, ranking)
        if advice is not None:
            click.echo(f"\n{in_words(advice)}")
        if asked.why and forecast is not None:
            explain_sources(forecast, [p.platform for p in ranking if p.platform in here])
        for reason in reasons if asked.why else ():
            click.echo(f"\n{reason.sentence()}")
    if asked.picture is not None:
        explained.draw(asked.picture, measured.name, reasons, AXES, SHARES)
        click.echo(f"picture written to {asked.picture}", err=True)


def _from(
    forecast: Forecast, one: RelativePrediction, measured: Profile, platform: Platform
) -> RelativePrediction:
    """With the forecast's time where there is one."""
    predicted = forecast.at(
        platform.name, 1 if platform.is_gpu else usable_cores(measured, platform)
    )
    if predicted is None:
        return one
    return replace(
        one,
        basis=predicted.basis,
        speedup=predicted.speedup,
        runtime_s=predicted.runtime_s,
        abstained=predicted.abstained,
    )


def _usable(one: RelativePrediction) -> bool:
    return one.abstained is None and one.basis is not Basis.PRIOR


def _document(
    measured: Profile, model: RelativeModel, found: Answer, ranking: Sequence[RelativePrediction]
) -> dict[str, Any]:
    return {
        "workload": measured.name,
        "reference": measured.platform,
        "bundle": model.id,
        "missing_counters": list(found.missing),
        "predictions": [
            {
                "platform": p.platform,
                "basis": p.basis.value,
                "speedup": _range(p.speedup, p),
                "runtime_s": _range(p.runtime_s, p),
                "abstained": p.abstained,
            }
            for p in ranking
        ],
    }


def _range(found: Interval, said: RelativePrediction) -> dict[str, float | None]:
    """As JSON; without trust nobody knows low and high, and a width of nothing would look sure."""
    if said.abstained == NO_TRUST:
        return {"low": None, "mid": found.mid, "high": None}
    return {"low": found.low, "mid": found.mid, "high": found.high}


def _show(
    measured: Profile, model: RelativeModel, found: Answer, ranking: Sequence[RelativePrediction]
) -> None:
    click.echo(f"{measured.name}, measured on {measured.platform}; bundle {model.id}\n")
    header = ("platform", "speedup", "90 % interval", "time", "90 % interval", "basis")
    rows = []
    for p in ranking:
        sure = p.abstained != NO_TRUST
        low, high = format_seconds(p.runtime_s.low), format_seconds(p.runtime_s.high)
        rows.append(
            (
                p.platform,
                f"{p.speedup.mid:.3g}x",
                f"{p.speedup.low:.3g} to {p.speedup.high:.3g}" if sure else "not known",
                format_seconds(p.runtime_s.mid),
                f"{low} to {high}" if sure else "not known",
                p.basis.value + (" (abstains)" if p.abstained else ""),
            )
        )
    click.echo(columns(header, rows, first=sum(map(_usable, ranking))))
    doubts = list(dict.fromkeys(p.abstained for p in ranking if p.abstained))
    for reason in doubts:
        click.echo(f"\nabstains: {reason}")
    if doubts and found.joint is not None:
        click.echo("`--probe` says which run elsewhere would help most.")
    if found.missing:
        click.echo(f"\nnot counted, so taken for usual: {', '.join(found.missing)}")
