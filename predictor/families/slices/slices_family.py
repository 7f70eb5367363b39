"""The family of workloads measured on a whole GPU, predicted on its MIG slices.

The time of a whole job is multiplied by the slow-down of one batch, so the parts of a job that do
not use the GPU are overestimated.
"""

from __future__ import annotations

from berth.pilot.platform import Platform
from berth.predictor.core.family import Bundles, Explanation, FamilyForecast, Question
from berth.predictor.core.forecast import SourceShare
from berth.predictor.core.prediction import MemoryUse, Prediction, PredictionCurve
from berth.predictor.core.workload import Workload
from berth.predictor.families.slices.bundle import DEFAULT_SLICES_BUNDLE, SLICES_SCHEMA, load
from berth.predictor.families.slices.predictor import (
    SlicePrediction,
    SlicePredictor,
    is_whole,
    memory_of,
    predictions,
    profiles_of,
)
from berth.predictor.families.slices.workload import SliceWorkload
from berth.predictor.hardware.mig.slices import lookup


class SlicesFamily:
    """Family of slow-downs on MIG slices of the GPU model that a workload was measured on."""

    name = "slices"

    def __init__(self, predictor: SlicePredictor) -> None:
        self.predictor = predictor

    @classmethod
    def load(cls, bundles: Bundles) -> SlicesFamily:
        """Return the family with the site's slices bundle, or with the shipped bundle if the site
        has none.

        Raises DocumentError for a missing or invalid bundle.
        """
        return cls(SlicePredictor(load(bundles.get(SLICES_SCHEMA, DEFAULT_SLICES_BUNDLE))))

    def accepts(self, workload: Workload) -> bool:
        """Return whether the workload's document is a SliceWorkload."""
        return isinstance(workload.document, SliceWorkload)

    def forecast(self, question: Question) -> FamilyForecast:
        """Return one prediction for the whole GPU and for each of its slices among the
        platforms."""
        document = question.document(SliceWorkload)
        geometry = lookup(document.gpu)
        by_profile = predictions(document, geometry, self.predictor)
        places = profiles_of(geometry, question.platforms)
        memory = memory_of(document, geometry)
        curves = {
            name: PredictionCurve((_point(document, by_profile[profile.name], memory, name),))
            for name, profile in places.items()
        }
        sources = {
            name: self._sources(geometry.gpu, by_profile[profile.name])
            for name, profile in places.items()
        }
        wholes = (n for n, p in question.known.items() if is_whole(geometry, p))
        return FamilyForecast(
            self.predictor.model.id,
            curves,
            sources=sources,
            reference=min(wholes, default=""),
            reference_s=document.runtime_s or next(iter(by_profile.values())).whole_s,
        )

    def explain(self, question: Question, platform: Platform) -> Explanation:
        """Return a sentence with the slow-down on a slice and the time that a larger slice would
        not shorten."""
        document = question.document(SliceWorkload)
        geometry = lookup(document.gpu)
        profile = profiles_of(geometry, {platform.name: platform}).get(platform.name)
        if profile is None:
            return Explanation(f"{platform.name} is no {geometry.gpu} and no slice of one.")
        prediction = predictions(document, geometry, self.predictor)[profile.name]
        return Explanation(
            f"{prediction.slowdown.mid:.2f} times the time of the whole {geometry.gpu} by the "
            f"method {prediction.method}; {prediction.launch_share:.0%} of it are launches and the "
            "host, which a larger slice does not shorten."
        )

    def _sources(self, gpu: str, prediction: SlicePrediction) -> tuple[SourceShare, ...]:
        """Return the sources of a prediction with their weights and interval widths."""
        if prediction.share.is_whole:
            situation = "measured there"
        else:
            situation = "unseen model" if gpu in self.predictor.model.gpus else "unseen device"
        width = prediction.slowdown.log_width
        return (SourceShare(f"{self.name}: {prediction.method}", 1.0, width, situation),)


def _point(
    workload: SliceWorkload, prediction: SlicePrediction, memory: MemoryUse, platform: str
) -> Prediction:
    slowdown = prediction.slowdown
    seconds = workload.runtime_s
    return Prediction(
        workload=workload.name,
        platform=platform,
        cores=1,
        gpus=1,
        basis=prediction.basis,
        speedup=slowdown.over(1.0),
        runtime_s=prediction.step_s if seconds is None else slowdown.scaled(seconds),
        memory=memory,
        energy_j=None,
        bound=prediction.bound,
        abstained=None if prediction.share.is_whole else prediction.abstained,
    )
