"""``berth predict CONFIG.json``: a language model's throughput, latency and memory by platform."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from berth.pilot.units import format_bytes, format_seconds
from berth.plugin.cli.output.forecast_text import best_points, explain_sources, sources_json, usable
from berth.plugin.cli.output.intervals import as_numbers
from berth.plugin.cli.predict.asked import Asked
from berth.plugin.report.terminal import columns
from berth.predictor.core.forecast import Forecast, Unit
from berth.predictor.core.prediction import Basis, Interval
from berth.predictor.core.workload import Workload
from berth.predictor.families.language_model.bundle import LLM_SCHEMA
from berth.predictor.families.language_model.config import LanguageModel, from_mapping
from berth.predictor.families.language_model.language_model_family import load_of
from berth.predictor.families.language_model.load import Load
from berth.predictor.families.language_model.predictor import (
    UNVERIFIED,
    LlmPredictor,
    ServingPrediction,
)
from berth.predictor.families.language_model.workload import LanguageModelWorkload
from berth.predictor.hardware.unit import get_unit, units


def predict_llm(asked: Asked) -> None:
    """Rank accelerators for a language model; those without a platform here, too."""
    asked.check("--carbon-intensity", "--picture")
    document = asked.workload.document
    assert isinstance(document, LanguageModelWorkload)  # noqa: S101 - by its kind
    config = document.config
    name = str(config.get("_name_or_path") or document.name)[:200]
    model = from_mapping(config, source=asked.path, name=name)
    work, framework = load_of(document, model), document.framework.lower()
    predictor = LlmPredictor.load(asked.bundles.get(LLM_SCHEMA))
    places = units(asked.platforms, None if asked.names else predictor.accelerators)
    chosen = [get_unit(name, places) for name in asked.names] or list(places.values())
    found = predictor.predict(model, work, chosen, framework, asked.carbon_g_per_kwh)
    here = [one.device for one in found if one.device in asked.platforms]
    forecast = asked.forecast(here) if here else None
    if forecast is not None:
        found = [_from(forecast, one, asked.workload, work) for one in found]
    if forecast is not None:
        rows = best_points(forecast)
        asked.draw_times((one.platform, one.runtime_s, usable(one)) for one in rows)
    found.sort(key=lambda p: (not _usable(p), not p.fits, -p.throughput.mid, p.device))
    if asked.as_json:
        answer = _document(model, work, predictor, framework, found)
        for row in answer["predictions"]:
            known = forecast is not None and row["platform"] in forecast.curves
            row["sources"] = sources_json(forecast, row["platform"]) if known and forecast else []
        click.echo(json.dumps(answer, indent=2))
        return
    _show(model, work, predictor, framework, found)
    if asked.why and forecast is not None:
        explain_sources(forecast, [p.device for p in found if p.device in forecast.curves])


def _from(
    forecast: Forecast, one: ServingPrediction, workload: Workload, work: Load
) -> ServingPrediction:
    """With the forecast's time as tokens a second, its basis and doubts."""
    predicted = forecast.at(one.device, one.gpus)
    if predicted is None:
        return one
    amount = workload.amount
    tokens = 1.0 if amount.unit is Unit.TOKEN else float(work.input_tokens + work.output_tokens)
    if forecast.whole_job and amount.count is not None:
        tokens *= amount.count
    time = predicted.runtime_s
    throughput = Interval(tokens / time.high, tokens / time.mid, tokens / time.low)
    return replace(one, throughput=throughput, basis=predicted.basis, abstained=predicted.abstained)


def _usable(one: ServingPrediction) -> bool:
    return one.fits and one.abstained is None and one.basis is not Basis.PRIOR


def _document(
    model: LanguageModel,
    work: Load,
    predictor: LlmPredictor,
    framework: str,
    found: Sequence[ServingPrediction],
) -> dict[str, Any]:
    return {
        "model": model.name,
        "family": model.family,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "bundle": predictor.model.id,
        "framework": framework,
        "batch": work.batch,
        "input_tokens": work.input_tokens,
        "output_tokens": work.output_tokens,
        "weight_bits": work.weight_bits,
        "kv_bits": work.kv_bits,
        "gpus": work.gpus,
        "predictions": [
            {
                "platform": p.device,
                "basis": p.basis.value,
                "latency_basis": p.latency_basis.value,
                "fits": p.fits,
                "tokens_per_s": as_numbers(p.throughput) if p.fits else None,
                "ttft_s": as_numbers(p.ttft_s) if p.fits else None,
                "tpot_s": as_numbers(p.tpot_s) if p.fits else None,
                "gpu_memory_bytes": as_numbers(p.memory.peak),
                "gpu_memory_least_bytes": p.memory.least,
                "resident_sequences": round(min(p.resident, 1e6), 1),
                "energy_j_per_token": as_numbers(p.energy_j_per_token) if p.fits else None,
                "price_per_million_tokens": as_numbers(p.price_per_million) if p.fits else None,
                "carbon_g_per_million_tokens": (
                    as_numbers(p.carbon_g_per_million) if p.fits else None
                ),
                "bound": p.bound.value,
                "from": p.source,
                "abstained": p.abstained,
            }
            for p in found
        ],
        "unverified": ["gpu_memory_bytes", "energy_j_per_token", "carbon_g_per_million_tokens"],
    }


def _show(
    model: LanguageModel,
    work: Load,
    predictor: LlmPredictor,
    framework: str,
    found: Sequence[ServingPrediction],
) -> None:
    header = (
        "platform", "tokens/s", "90 % interval", "first token", "each token", "GPU memory <=",
        "fits", "J/token", "price/M", "g CO2/M", "bound", "basis",
    )  # fmt: skip
    rows = []
    for p in found:
        shown = (
            f"{p.throughput.mid:.4g}", f"{p.throughput.low:.3g} to {p.throughput.high:.3g}",
            format_seconds(p.ttft_s.mid), format_seconds(p.tpot_s.mid),
        ) if p.fits else ("-", "", "-", "-")  # fmt: skip
        rows.append((
            p.device,
            *shown,
            format_bytes(p.memory.peak.high),
            _fits(p, work),
            *(_mid(v if p.fits else None)
              for v in (p.energy_j_per_token, p.price_per_million, p.carbon_g_per_million)),
            p.bound.value if p.fits else "",
            (p.basis.value if p.fits else "") + (" (abstains)" if p.abstained else ""),
        ))  # fmt: skip
    click.echo(
        f"{model.name}: {model.family}, {model.parameters / 1e9:.3g} billion parameters, "
        f"{work.weight_bits:g}-bit weights, {framework}, batch {work.batch}, "
        f"{work.input_tokens} + {work.output_tokens} tokens, {work.gpus} "
        f"GPU{'s' * (work.gpus > 1)} of each; bundle {predictor.model.id}\n"
    )
    click.echo(columns(header, rows, indent=0, first=sum(map(_usable, found))))
    click.echo()
    for reason in dict.fromkeys(p.abstained for p in found if p.abstained and p.fits):
        click.echo(f"abstains: {reason}")
    if any(p.basis is Basis.PRIOR for p in found):
        click.echo("prior: physics only, with what the framework achieves elsewhere.")
    click.echo(f"Memory (of one GPU), energy and carbon are {UNVERIFIED}.")


def _fits(p: ServingPrediction, work: Load) -> str:
    if not p.fits:
        return "no"
    each = -(-work.batch // work.data_parallel)
    return "yes" if p.resident >= each else f"{int(p.resident)} at a time"


def _mid(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval.mid:.3g}"
