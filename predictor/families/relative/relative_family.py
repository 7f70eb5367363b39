"""The relative family: a site's relative-performance bundle behind the Family protocol."""

from __future__ import annotations

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.family import Bundles, Explanation, FamilyForecast, Question
from berth.predictor.core.forecast import SourceShare
from berth.predictor.core.prediction import Bound, Prediction, PredictionCurve
from berth.predictor.core.program_memory import memory_on
from berth.predictor.core.workload import Workload
from berth.predictor.families.program.predictor import usable_cores
from berth.predictor.families.program.problem_size import size_growth
from berth.predictor.families.relative.bundle import RELATIVE_SCHEMA, RelativeModel, load
from berth.predictor.families.relative.predictor import predict_row
from berth.predictor.families.relative.rows import row_of, values_of

UNSEEN = "unseen application"
"""Situation in which the errors of this family are measured."""


class RelativeFamily:
    """A relative-performance bundle; it predicts for the platforms that it was trained on."""

    name = "relative"

    def __init__(self, model: RelativeModel) -> None:
        self._model = model

    @classmethod
    def load(cls, bundles: Bundles) -> RelativeFamily | None:
        """Return the family with the bundle that the site names; None without one, as none is
        shipped.

        Raises DocumentError for a broken bundle.
        """
        folder = bundles.get(RELATIVE_SCHEMA)
        return None if folder is None else cls(load(folder))

    def accepts(self, workload: Workload) -> bool:
        """Return whether the workload is a program whose pilot ran on the bundle's reference
        platform."""
        document = workload.document
        return (
            isinstance(document, Profile)
            and document.runtime is not None
            and document.platform == self._model.manifest.reference
        )

    def forecast(self, question: Question) -> FamilyForecast:
        """Return one prediction for each requested platform that the bundle knows."""
        profile = question.document(Profile)
        manifest = self._model.manifest
        names = [name for name in manifest.platforms if name in question.platforms]
        if not names:
            return FamilyForecast(bundle=self._model.id, curves={})
        row = row_of(profile, manifest.counters, manifest.platforms, {})
        beside = values_of(profile, manifest.constants or ())
        sizes = size_growth(profile)
        curves = {}
        sources = {}
        for prediction in predict_row(self._model, row, names, beside):
            platform = question.platforms[prediction.platform]
            curves[prediction.platform] = PredictionCurve(
                (
                    Prediction(
                        workload=profile.name,
                        platform=prediction.platform,
                        cores=1 if platform.is_gpu else usable_cores(profile, platform),
                        gpus=1 if platform.is_gpu else 0,
                        basis=prediction.basis,
                        speedup=prediction.speedup,
                        runtime_s=prediction.runtime_s,
                        memory=memory_on(platform, profile, sizes, question.measured_on),
                        energy_j=None,
                        bound=Bound.UNKNOWN,
                        abstained=prediction.abstained,
                    ),
                )
            )
            width = prediction.runtime_s.log_width
            sources[prediction.platform] = (
                SourceShare(f"{self.name}: {manifest.family}", 1.0, width, UNSEEN),
            )
        runtime = profile.runtime
        measured_s = None if runtime is None else runtime.median_s
        return FamilyForecast(self._model.id, curves, sizes, sources, measured_s)

    def explain(self, question: Question, platform: Platform) -> Explanation:
        """Raise UsageError: only the shipped predictors say what determines a time."""
        raise UsageError("a bundle of relative performance gives no reasons for its predictions")
