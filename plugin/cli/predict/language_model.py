"""``berth predict CONFIG.json``: a language model's throughput, latency and memory by platform."""

from __future__ import annotations

from dataclasses import replace

from berth.plugin.cli.predict.asked import PredictRequest
from berth.plugin.report.of_language_model import (
    Served,
    ServingRanking,
    serving_data,
    serving_report,
)
from berth.predictor.core.forecast import Forecast, WorkUnit
from berth.predictor.core.prediction import Interval
from berth.predictor.core.workload import Workload
from berth.predictor.families.language_model.bundle import LLM_SCHEMA
from berth.predictor.families.language_model.config import from_mapping
from berth.predictor.families.language_model.language_model_family import load_of
from berth.predictor.families.language_model.load import LlmLoad
from berth.predictor.families.language_model.predictor import LlmPredictor, ServingPrediction
from berth.predictor.families.language_model.workload import LanguageModelWorkload
from berth.predictor.hardware.unit import get_unit, units


def predict_llm(asked: PredictRequest) -> None:
    """Print accelerators ranked for a language model, including accelerators that are no
    platform of this site."""
    asked.check()
    document = asked.workload.document
    assert isinstance(document, LanguageModelWorkload)  # noqa: S101 - by its kind
    config = document.config
    name = str(config.get("_name_or_path") or document.name)[:200]
    model = from_mapping(config, source=asked.path, name=name)
    load, framework = load_of(document, model), document.framework
    predictor = LlmPredictor.load(asked.bundles.get(LLM_SCHEMA))
    accelerators = units(asked.platforms, None if asked.names else predictor.accelerators)
    chosen = [get_unit(name, accelerators) for name in asked.names] or list(accelerators.values())
    predictions = predictor.predict(model, load, chosen, framework, asked.carbon_g_per_kwh)
    known = [p.device for p in predictions if p.device in asked.platforms]
    forecast = asked.forecast(known) if known else None
    if forecast is not None:
        predictions = [_of_forecast(forecast, p, asked.workload, load) for p in predictions]
    ranking = ServingRanking(
        model, load, framework, predictor.model.id,
        sorted(predictions, key=lambda p: (
            not Served(p, load).can_act, not p.fits, -p.throughput.mid, p.device
        )),
        forecast, with_sources=asked.why, amount=asked.workload.amount,
        currency=asked.currency,
    )  # fmt: skip
    asked.show(lambda: serving_report(ranking), lambda: serving_data(ranking))


def _of_forecast(
    forecast: Forecast, prediction: ServingPrediction, workload: Workload, load: LlmLoad
) -> ServingPrediction:
    """Return the prediction with its throughput (tokens/s), basis and abstention taken from the
    forecast."""
    known = forecast.at(prediction.device, prediction.gpus)
    if known is None:
        return prediction
    amount = workload.amount
    tokens = 1.0 if amount.unit is WorkUnit.TOKEN else float(load.input_tokens + load.output_tokens)
    if forecast.whole_job and amount.count is not None:
        tokens *= amount.count
    time = known.runtime_s
    throughput = Interval(tokens / time.high, tokens / time.mid, tokens / time.low)
    return replace(prediction, throughput=throughput, basis=known.basis, abstained=known.abstained)
