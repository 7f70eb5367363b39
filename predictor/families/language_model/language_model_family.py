"""Predict served language models (Family protocol)."""

from __future__ import annotations

from berth.pilot.platform import Platform
from berth.predictor.core.family import Bundles, Explanation, FamilyForecast, Question
from berth.predictor.core.forecast import SourceShare, WorkUnit
from berth.predictor.core.prediction import Interval, MemoryUse, Prediction, PredictionCurve
from berth.predictor.core.workload import Workload
from berth.predictor.families.language_model.bundle import LLM_SCHEMA
from berth.predictor.families.language_model.config import LanguageModel, from_mapping
from berth.predictor.families.language_model.load import LlmLoad
from berth.predictor.families.language_model.predictor import LlmPredictor, ServingPrediction
from berth.predictor.families.language_model.workload import LanguageModelWorkload
from berth.predictor.hardware.unit import known_unit


class LanguageModelFamily:
    """Predicts the time per request (or token) of a language-model server at full load, and the
    memory of its GPUs."""

    name = "language_model"

    def __init__(self, predictor: LlmPredictor) -> None:
        self._predictor = predictor

    @classmethod
    def load(cls, bundles: Bundles) -> LanguageModelFamily:
        """Return the family with the site's bundle, or with the shipped bundle where the site has
        none. Raises DocumentError."""
        return cls(LlmPredictor.load(bundles.get(LLM_SCHEMA)))

    def accepts(self, workload: Workload) -> bool:
        """Return whether the workload is a served language model."""
        return isinstance(workload.document, LanguageModelWorkload)

    def forecast(self, question: Question) -> FamilyForecast:
        """Return one prediction for each GPU platform with a known accelerator, at the number of
        GPUs that the workload requests."""
        document = question.document(LanguageModelWorkload)
        curves, sources = {}, {}
        for prediction in self._predict(question):
            curves[prediction.device] = PredictionCurve((_point(document, prediction),))
            width = prediction.tuned_log_width
            sources[prediction.device] = (
                SourceShare(
                    f"{self.name}: {prediction.source}", 1.0, width, prediction.basis.value
                ),
            )
        return FamilyForecast(self._predictor.model.id, curves, sources=sources)

    def explain(self, question: Question, platform: Platform) -> Explanation:
        """Return the throughput, latency and bottleneck of the served model on ``platform``, as
        text."""
        serving = {prediction.device: prediction for prediction in self._predict(question)}.get(
            platform.name
        )
        if serving is None:
            return Explanation(f"{platform.name} is no accelerator that Berth knows.")
        return Explanation(
            f"{serving.throughput.mid:.4g} tokens/s on {platform.name}: "
            f"{serving.bound.value}-bound, {serving.ttft_s.mid:.3g} s to the first token and "
            f"{serving.tpot_s.mid:.3g} s for each further one."
        )

    def _predict(self, question: Question) -> list[ServingPrediction]:
        document = question.document(LanguageModelWorkload)
        model = from_mapping(document.config, source=document.name, name=document.name)
        places = [
            unit
            for platform in question.platforms.values()
            if (unit := known_unit(platform, question.known)) is not None
        ]
        return self._predictor.predict(model, load_of(document, model), places, document.framework)


def load_of(document: LanguageModelWorkload, model: LanguageModel) -> LlmLoad:
    """Return the load (batch, lengths, parallelism, bits) that a workload describes. Raises
    UsageError for an impossible load."""
    return LlmLoad(
        batch=document.concurrency,
        input_tokens=document.input_tokens,
        output_tokens=document.output_tokens,
        weight_bits=document.weight_bits or model.weight_bits,
        compute_bits=None if document.weight_bits else model.compute_bits,
        weight_format=model.weight_format if document.weight_bits in {None, 4.0} else "",
        kv_bits=document.kv_bits,
        tensor_parallel=document.tensor_parallel,
        pipeline_parallel=document.pipeline_parallel,
        data_parallel=document.data_parallel,
        expert_parallel=document.expert_parallel,
        most_sequences=document.most_sequences,
        memory_share=document.memory_share,
        prefix_hit_rate=document.prefix_hit_rate,
        chunk_tokens=document.chunk_tokens,
    )


def _memory(prediction: ServingPrediction) -> Interval:
    """Return the bytes of memory on all GPUs of a server: from the weights alone to the upper bound
    with one resident sequence."""
    least, peak = prediction.memory.least, prediction.memory.peak
    low = min(prediction.memory.weights, least)
    return Interval(low, max(low, min(peak.mid, least)), least).scaled(prediction.gpus)


def _point(document: LanguageModelWorkload, prediction: ServingPrediction) -> Prediction:
    per_request = document.input_tokens + document.output_tokens
    tokens = 1 if document.amount.unit is WorkUnit.TOKEN else per_request
    rate, energy = prediction.throughput, prediction.energy_j_per_token
    return Prediction(
        workload=document.name,
        platform=prediction.device,
        cores=1,
        gpus=prediction.gpus,
        basis=prediction.basis,
        speedup=Interval(1.0, 1.0, 1.0),
        runtime_s=rate.over(tokens),
        memory=MemoryUse(gpu_bytes=_memory(prediction)),
        energy_j=None if energy is None else energy.scaled(tokens),
        bound=prediction.bound,
        abstained=prediction.abstained,
        own_log_width=prediction.tuned_log_width,
    )
