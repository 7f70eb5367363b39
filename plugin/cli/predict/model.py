"""``berth predict MODEL.onnx``: ranks platforms for a deep-learning model's inference run or
training step.

Times come from the forecast; their breakdown into operators comes from the roofline.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from berth.plugin.cli.predict.asked import PredictRequest
from berth.plugin.report.of_model import Memories, ModelRanking, ModelRow, model_data, model_report
from berth.plugin.report.of_training_step import StepRanking, StepRow, step_data, step_report

if TYPE_CHECKING:
    from berth.pilot.platform import Platform
    from berth.predictor.core.forecast import Forecast
    from berth.predictor.families.graph.workload import ModelWorkload
    from berth.predictor.graphs.graph import ModelGraph
    from berth.predictor.graphs.roofline import Roofline
    from berth.predictor.hardware.roofs import Roof

# ruff: noqa: PLC0415 - numpy and pydantic are slow, and a refusal needs neither

TRAINING_BUNDLE = "berth.dl-training-bundle/1"


def predict_model(asked: PredictRequest) -> None:
    """Print platforms ranked for a model's inference run; with ``--roofline`` also its
    bottlenecks."""
    from berth.predictor.families.graph.model import graph_of
    from berth.predictor.graphs.roofline import roofline
    from berth.predictor.hardware.device import Numbers
    from berth.predictor.hardware.roofs import roofs

    asked.check("--roofline")
    document = _document(asked)
    graph = graph_of(document)
    known = roofs(asked.platforms)
    numbers = Numbers(document.precision) if document.precision else None
    forecast = asked.forecast(asked.chosen())
    memories = Memories(graph, numbers, asked.platforms)
    lines = [
        _of_forecast(forecast, roofline(graph, known[name], numbers), asked)
        for name in forecast.curves
    ]
    steps = asked.workload.amount.steps
    rows = sorted((replace(memories.row(line), runs=steps) for line in lines), key=_order)
    details: list[Roofline] = []
    if asked.roofline:
        details = [row.line for row in rows if row.platform in asked.names] or [rows[0].line]
    name = document.file or document.name
    ranking = ModelRanking(
        name, graph, forecast, steps, rows, memories, details, with_sources=asked.why
    )
    asked.show(lambda: model_report(ranking), lambda: model_data(ranking))


def _document(asked: PredictRequest) -> ModelWorkload:
    from berth.predictor.families.graph.workload import ModelWorkload

    document = asked.workload.document
    assert isinstance(document, ModelWorkload)  # noqa: S101 - by its kind
    return document


def _of_forecast(forecast: Forecast, line: Roofline, asked: PredictRequest) -> Roofline:
    """Return the roofline with the time of one run, the basis and the sources taken from the
    forecast."""
    platform: Platform = asked.platforms[line.roof.platform]
    name = platform.name
    predicted = forecast.at(name, 1 if platform.is_gpu else platform.cores)
    assert predicted is not None  # noqa: S101 - of a platform that is forecast
    runs = asked.workload.amount.steps if forecast.whole_job else None
    shares = forecast.sources.get(name, ())
    source = shares[0].source.removeprefix("graph: ") if len(shares) == 1 else ""
    return replace(
        line,
        roof=_of_all(line.roof, max(1, predicted.gpus)),
        seconds=predicted.runtime_s if runs is None else predicted.runtime_s.scaled(1 / runs),
        basis=predicted.basis,
        source=source or forecast.source_of(name),
        note="; ".join(filter(None, (shares[0].situation if shares else "", predicted.abstained))),
    )


def _of_all(roof: Roof, gpus: int) -> Roof:
    """Return the roofline's hardware limits with the power (W) and price per hour of ``gpus``
    GPUs together."""
    watts, price = roof.power_w, roof.price_per_hour
    return replace(
        roof,
        power_w=None if watts is None else watts * gpus,
        price_per_hour=None if price is None else price * gpus,
    )


def _order(row: ModelRow) -> tuple[bool, bool, float, str]:
    return not row.can_act, not row.line.fits, row.line.seconds.mid, row.platform


def predict_training(asked: PredictRequest) -> None:
    """Print platforms ranked by the time of a model's training step."""
    from berth.predictor.families.graph.model import graph_of

    asked.check()
    document = _document(asked)
    graph = graph_of(document)
    forecast = asked.forecast(asked.chosen())
    rows = _step_rows(asked, document, graph, forecast)
    ranking = StepRanking(
        document.file or document.name, graph, forecast, asked.workload.amount.steps, rows,
        max(1, document.runs_on.gpus), with_sources=asked.why,
    )  # fmt: skip
    asked.show(lambda: step_report(ranking), lambda: step_data(ranking))


def _step_rows(
    asked: PredictRequest, document: ModelWorkload, graph: ModelGraph, forecast: Forecast
) -> list[StepRow]:
    """Return the platforms' training-step predictions: reliable ones first, each group by time."""
    from berth.predictor.families.training_step import bundle as bundles
    from berth.predictor.families.training_step.predictor import predict
    from berth.predictor.families.training_step.training_step_family import precision_of
    from berth.predictor.footprint.footprint import fits

    folder = asked.bundles.get(TRAINING_BUNDLE)
    model = None if folder is None else bundles.load(folder)
    steps = asked.workload.amount.steps if forecast.whole_job else None
    numbers, rows = precision_of(document), []
    for step in predict(graph, list(forecast.curves), asked.platforms, model, numbers=numbers):
        platform = asked.platforms[step.platform]
        predicted = forecast.at(step.platform, 1 if platform.is_gpu else platform.cores)
        assert predicted is not None  # noqa: S101 - of a platform that is forecast
        runtime_s = predicted.runtime_s if steps is None else predicted.runtime_s.scaled(1 / steps)
        use = predicted.memory.scaled(1 / max(1, predicted.gpus))
        memory = use.gpu_bytes if platform.is_gpu else use.host_bytes
        assert memory is not None  # noqa: S101 - this family always says
        rows.append(
            StepRow(
                replace(
                    step, seconds=runtime_s, basis=predicted.basis,
                    batch=step.batch * max(1, document.runs_on.gpus),
                ),
                memory, platform.is_gpu, fits(memory, platform.memory_bytes).value,
                predicted.abstained, steps,
            )
        )  # fmt: skip
    return sorted(rows, key=lambda row: (not row.can_act, row.step.seconds.mid, row.step.platform))
