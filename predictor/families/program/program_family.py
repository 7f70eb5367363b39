"""The program family behind the ``Family`` protocol: a calibrated roofline with a learnt
correction."""

from __future__ import annotations

from dataclasses import replace

from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.family import Bundles, Explanation, FamilyForecast, Question
from berth.predictor.core.workload import Workload
from berth.predictor.families.program.amdahl import least_cores
from berth.predictor.families.program.bundle import BUNDLE_SCHEMA
from berth.predictor.families.program.explain import bottlenecks
from berth.predictor.families.program.node_runs import one_node
from berth.predictor.families.program.node_scaling import scaling_of
from berth.predictor.families.program.predictor import Predictor, usable_cores
from berth.predictor.families.program.work import missing_counters_sentence
from berth.predictor.hardware.ceilings import Allocation


class ProgramFamily:
    """Adapter that serves a ``Predictor`` through the ``Family`` protocol."""

    name = "program"

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    @classmethod
    def load(cls, bundles: Bundles) -> ProgramFamily:
        """Return the family with the site's program bundle, or with the shipped bundle if the site
        has none.

        Raises DocumentError for a missing or invalid bundle.
        """
        return cls(Predictor.load(bundles.get(BUNDLE_SCHEMA)))

    def accepts(self, workload: Workload) -> bool:
        """Return whether the workload's document is a Profile.

        ``forecast`` raises UsageError for a Profile without a run time.
        """
        return isinstance(workload.document, Profile)

    def forecast(self, question: Question) -> FamilyForecast:
        """Return predictions by platform over core counts, and how the time changes with the number
        of nodes.

        Raises UsageError for a profile without run time, or without counters that its prediction
        needs.
        """
        profile = question.document(Profile)
        answer = self._predictor.answer(one_node(profile), question.platforms, question.measured_on)
        speedups = {
            name: curve.nearest(usable_cores(one_node(profile), question.platforms[name])).speedup
            for name, curve in answer.curves.items()
        }
        scaling = scaling_of(
            profile, question.platforms, {name: speedup.mid for name, speedup in speedups.items()}
        )
        return replace(answer, nodes=scaling, least_cores=least_cores(profile))

    def explain(self, question: Question, platform: Platform) -> Explanation:
        """Return what limits the program on one platform: the largest part of the roofline time."""
        profile = one_node(question.document(Profile))
        if (words := missing_counters_sentence(profile)) is not None:
            return Explanation(words)
        point = Allocation(platform, 1 if platform.is_gpu else usable_cores(profile, platform))
        [found] = bottlenecks(self._predictor, profile, [point], reference=question.measured_on)
        return Explanation(found.sentence())
