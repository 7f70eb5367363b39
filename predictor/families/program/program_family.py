"""Programs by their profile: roofline prior times learnt residual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.family import Answer, Bundles, Effect, Explanation, Question
from berth.predictor.core.workload import Workload
from berth.predictor.families.program.bundle import BUNDLE_SCHEMA
from berth.predictor.families.program.explain import explain
from berth.predictor.families.program.node_runs import one_node
from berth.predictor.families.program.node_scaling import scaling_of
from berth.predictor.families.program.predictor import Predictor, usable_cores
from berth.predictor.families.program.time_only import is_time_only
from berth.predictor.hardware.ceilings import Point


class ProgramFamily:
    """A Predictor behind the Family protocol."""

    name = "program"

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    @classmethod
    def load(cls, bundles: Bundles) -> ProgramFamily:
        """Load a site's bundle, else the shipped one. Raises DocumentError."""
        return cls(Predictor.load(bundles.get(BUNDLE_SCHEMA)))

    def accepts(self, workload: Workload) -> bool:
        """Return whether it is a profile; one without runtime is refused with its reason by
        ``forecast``."""
        return isinstance(workload.document, Profile)

    def forecast(self, question: Question) -> Answer:
        """Return a curve over core counts for each platform. Raises UsageError."""
        profile = question.document(Profile)
        answer = self._predictor.answer(one_node(profile), question.platforms, question.measured_on)
        speedups = {
            name: curve.nearest(usable_cores(one_node(profile), question.platforms[name])).speedup
            for name, curve in answer.curves.items()
        }
        scaling = scaling_of(
            profile, question.platforms, {name: speedup.mid for name, speedup in speedups.items()}
        )
        return replace(answer, nodes=scaling)

    def explain(self, question: Question, platform: Platform) -> Explanation:
        """Explain by Shapley values on the log speedup, and by the roofline's largest part."""
        return self.explain_each(question, [platform])[0]

    def explain_each(
        self, question: Question, platforms: Sequence[Platform]
    ) -> Sequence[Explanation]:
        """Explain several platforms by one game: their speedups are outputs of the same
        coalitions."""
        profile = one_node(question.document(Profile))
        if is_time_only(profile):
            words = "only its time and memory are known: typical of the suite"
            return [Explanation(words, ()) for _ in platforms]
        points = [Point(p, 1 if p.is_gpu else usable_cores(profile, p)) for p in platforms]
        explanations = explain(self._predictor, profile, points, reference=question.measured_on)
        # An effect is on the speedup; on the time it is the inverse.
        return [
            Explanation(
                explanation.sentence(),
                tuple(Effect(e.name, 1 / e.factor) for e in explanation.effects),
            )
            for explanation in explanations
        ]
