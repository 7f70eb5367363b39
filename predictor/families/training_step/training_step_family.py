"""Training steps of model graphs behind the Family protocol."""

from __future__ import annotations

import math

from berth.pilot.platform import Platform
from berth.predictor.core.family import Answer, Bundles, Explanation, Question
from berth.predictor.core.forecast import SourceShare
from berth.predictor.core.prediction import Basis, Prediction, PredictionCurve
from berth.predictor.core.workload import Workload
from berth.predictor.families.graph.kind import Mode
from berth.predictor.families.graph.model import (
    graph_of,
    is_model,
    model_of,
    places_by_units,
    point,
)
from berth.predictor.families.training_step.bundle import (
    DEFAULT_STEPS_BUNDLE,
    STEPS_SCHEMA,
    StepModel,
    load,
)
from berth.predictor.families.training_step.predictor import predict
from berth.predictor.footprint.footprint import MOMENTUM, Task, count, footprint
from berth.predictor.hardware.roofs import Numbers


class TrainingStepFamily:
    """A step of training: mixed precision on GPUs, fp32 on CPUs, SGD with momentum."""

    name = "training_step"

    def __init__(self, model: StepModel) -> None:
        self._model = model

    @classmethod
    def load(cls, bundles: Bundles) -> TrainingStepFamily:
        """From a site's bundle, else the shipped one. Raises DocumentError."""
        return cls(load(bundles.get(STEPS_SCHEMA, DEFAULT_STEPS_BUNDLE)))

    def accepts(self, workload: Workload) -> bool:
        """Model graphs to be trained."""
        return is_model(workload.document, Mode.TRAINING)

    def forecast(self, question: Question) -> Answer:
        """A curve over cores for CPUs, one point for a GPU or a slice."""
        document = model_of(question)
        graph = graph_of(document)
        memory = {
            gpu: footprint(
                count(graph, Task.TRAINING, on_gpu=gpu, numbers=numbers, moments=MOMENTUM)
            ).memory
            for gpu, numbers in ((True, Numbers.FP16), (False, Numbers.FP32))
        }
        points: dict[str, list[Prediction]] = {}
        sources = {}
        for units, places in places_by_units(question.platforms, question.known).items():
            roofs = {roof.platform: roof for roof in places}
            for one in predict(graph, list(roofs), question.known, self._model, units):
                roof = roofs[one.platform]
                points.setdefault(one.platform, []).append(
                    point(
                        document.name, roof, units, seconds=one.seconds, basis=one.basis,
                        memory=memory[roof.is_gpu], bound=one.bound,
                    )
                )  # fmt: skip
                known = one.basis is Basis.CALIBRATED
                width = math.log(one.seconds.high / one.seconds.mid)
                situation = f"{'unseen family' if known else 'unseen device'}, {one.precision}"
                sources[one.platform] = (
                    SourceShare(f"{self.name}: rates of {one.learnt_on}", 1.0, width, situation),
                )
        curves = {
            name: PredictionCurve(tuple(sorted(own, key=lambda p: p.gpus or p.cores)))
            for name, own in points.items()
        }
        return Answer(self._model.id, curves, sources=sources)

    def explain(self, question: Question, platform: Platform) -> Explanation:
        """Whose rates the step's parts are predicted with."""
        (one,) = predict(graph_of(model_of(question)), [platform.name], question.known, self._model)
        return Explanation(
            f"Forward, backward and SGD with momentum in {one.precision}, at rates learnt on "
            f"{one.learnt_on}."
        )
