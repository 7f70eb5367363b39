"""The Forecaster: one entry point that predicts any workload on any platforms, using all families.

    forecast = Forecaster(bundles).forecast(workload, platforms, known)

A family is loaded when the first workload of one of its kinds is predicted. The prediction for a
workload on a platform depends on the workload, the installed bundles and the known hardware, never
on which other platforms are requested in the same call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.bundle import schema_of_bundle
from berth.predictor.core.combine import SourceEstimate, combine
from berth.predictor.core.family import (
    FAMILIES,
    Adjusted,
    Explanation,
    Family,
    FamilyEntry,
    FamilyForecast,
    Question,
)
from berth.predictor.core.forecast import Forecast, SourceShare, WorkUnit
from berth.predictor.core.prediction import Prediction, PredictionCurve
from berth.predictor.core.workload import Workload
from berth.predictor.hardware.by_sheet import pilots_platform
from berth.predictor.hardware.mig.slices import relatives
from berth.predictor.hardware.same_hardware import same_hardware

DEFAULT_REFERENCES = ("epyc-genoa-vm", "a100-40gb")
"""Default reference platforms for speedups of workloads that were never measured.

A site may name another reference. The first platform with a prediction is used, since no family
predicts a language model on a CPU.
"""

T = TypeVar("T")


class Forecaster:
    """Predicts using the installed families and a site's bundles. Safe to share between threads."""

    def __init__(self, bundles: Sequence[Path] = (), families: Sequence[str] | None = None) -> None:
        """Use the bundles in ``bundles``, each of which replaces the shipped bundle of the same
        schema.

        ``families``: names of the families to use; default: all. Raises DocumentError for a folder
        that is not a bundle, and UsageError for a bundle whose schema no family reads.
        """
        every = FAMILIES.load_all()
        names = tuple(every) if families is None else families
        self._entries = [every[name] if name in every else FAMILIES.load(name) for name in names]
        self._bundles = self._by_schema(bundles)
        self._loaded: dict[str, Family | None] = {}

    def forecast(
        self,
        workload: Workload,
        platforms: Mapping[str, Platform],
        known: Mapping[str, Platform] | None = None,
        *,
        reference: str | None = None,
    ) -> Forecast:
        """Return the times, memory and energy predicted for ``workload`` on ``platforms``.

        ``known``: all platforms that exist (default: ``platforms``). ``reference``: the platform
        that speedups are relative to, where the workload's document names none. Raises UsageError
        where no family can predict the workload.
        """
        question = self._question(workload, platforms, known, reference)
        answers = _each(self.families(workload), lambda family: family.forecast(question))
        curves, sources = self._adjusted(question, *_combined(answers))
        reference, reference_s, measured = _reference_time(question, answers, curves)
        if not measured and reference_s is not None:
            curves = {name: _over(curve, reference_s) for name, curve in curves.items()}
        asked = {name: curve for name, curve in curves.items() if name in platforms}
        if not asked:
            raise UsageError(
                f"nothing can be predicted of {workload.name!r} on these platforms",
                hint="no family that takes it has data of them",
            )
        runs_on, unit = workload.runs_on, workload.amount.unit
        forecast = Forecast(
            workload=workload.name,
            kind=workload.kind,
            digest=workload.digest,
            bundle="+".join(dict.fromkeys(a.bundle for _, a in answers if a.bundle and a.curves)),
            targets=tuple(target.value for target in runs_on.targets),
            architecture=runs_on.architecture,
            instruction_sets=runs_on.instruction_sets,
            threads=runs_on.threads,
            ranks=runs_on.ranks,
            gpus=runs_on.gpus,
            container=runs_on.container,
            follows_shape=bool(runs_on.follows_shape),
            reference_platform=reference,
            reference_runtime_s=reference_s,
            sizes=answers[0][1].sizes,
            curves=asked,
            unit=WorkUnit.STEP if unit is WorkUnit.EPOCH else unit,
            families=tuple(family.name for family, answer in answers if answer.curves),
            sources={name: sources[name] for name in asked},
            least_cores=max((a.least_cores for _, a in answers), default=1),
            fails_on=next((a.fails_on for _, a in answers if a.fails_on), {}),
            ran_on=_ran_on(question),
            nodes=next((a.nodes for _, a in answers if a.nodes is not None), None),
        )
        return _of_whole_job(forecast, workload)

    def explain_each(
        self,
        workload: Workload,
        platforms: Sequence[Platform],
        known: Mapping[str, Platform],
        *,
        reference: str | None = None,
    ) -> list[Mapping[str, Explanation]]:
        """Return the explanations by family name for each platform, in the order of ``platforms``.

        Raises UsageError where a platform has no explanation from any family.
        """
        if not platforms:
            return []
        question = self._question(workload, {p.name: p for p in platforms}, known, reference)
        families = self.families(workload)

        def explained(platform: Platform) -> Mapping[str, Explanation]:
            each = _each(families, lambda family: family.explain(question, platform))
            return {family.name: explanation for family, explanation in each}

        return [explained(platform) for platform in platforms]

    def families(self, workload: Workload) -> list[Family]:
        """Return the families that accept the workload. Raises UsageError where none does."""
        accepting = [
            family
            for entry in self._entries
            if workload.kind in entry.kinds
            and (family := self._family(entry)) is not None
            and family.accepts(workload)
        ]
        if not accepting:
            raise UsageError(
                f"no family can predict {workload.name!r} (a workload of kind {workload.kind})",
                hint="`berth site doctor` names families that cannot be loaded",
            )
        return accepting

    def _adjusted(
        self,
        question: Question,
        curves: dict[str, PredictionCurve],
        sources: dict[str, tuple[SourceShare, ...]],
    ) -> tuple[dict[str, PredictionCurve], dict[str, tuple[SourceShare, ...]]]:
        adjusted = Adjusted(curves, sources)
        for entry in self._entries:
            if entry.adjust is not None and question.workload.kind not in entry.kinds:
                adjusted = entry.adjust(question, self._bundles, adjusted)
        return dict(adjusted.curves), dict(adjusted.sources)

    def _family(self, entry: FamilyEntry) -> Family | None:
        if entry.name not in self._loaded:
            self._loaded[entry.name] = entry.load(self._bundles)
        return self._loaded[entry.name]

    def _question(
        self,
        workload: Workload,
        platforms: Mapping[str, Platform],
        known: Mapping[str, Platform] | None,
        reference: str | None,
    ) -> Question:
        every = {**platforms, **(known or {})}
        document = workload.document
        home = pilots_platform(document, every) if isinstance(document, Profile) else None
        if home is not None:
            every[home.name] = home
        measured_on = getattr(document, "platform", None)
        if isinstance(measured_on, str):
            names: tuple[str, ...] = (measured_on,)
        else:
            names = (reference, *DEFAULT_REFERENCES) if reference else DEFAULT_REFERENCES
        references = tuple(every[name] for name in names if name in every)
        beside = (*relatives(platforms.values(), every), *references)
        asked = {**{platform.name: platform for platform in beside}, **platforms}
        return Question(workload, asked, {**asked, **every}, references)

    def _by_schema(self, folders: Sequence[Path]) -> dict[str, Path]:
        taken = {schema for entry in self._entries for schema in entry.bundle_readers}
        by_schema: dict[str, Path] = {}
        for folder in folders:
            schema = schema_of_bundle(folder)
            if schema not in taken:
                raise UsageError(
                    f"{folder} is a bundle of schema {schema!r}, which no family here predicts with"
                )
            if schema in by_schema:
                raise UsageError(
                    f"{folder} and {by_schema[schema]} are both of schema {schema!r}",
                    hint="name one of them",
                )
            by_schema[schema] = folder
        return by_schema


def _each(families: Sequence[Family], ask: Callable[[Family], T]) -> list[tuple[Family, T]]:
    """Return the result of calling ``ask`` with each family, leaving out families that raise
    UsageError.

    Raises the first family's UsageError where every family raised one.
    """
    answers: list[tuple[Family, T]] = []
    refusals: list[UsageError] = []
    for family in families:
        try:
            answers.append((family, ask(family)))
        except UsageError as refusal:
            refusals.append(refusal)
    if not answers:
        raise refusals[0]
    return answers


def _combined(
    answers: Sequence[tuple[Family, FamilyForecast]],
) -> tuple[dict[str, PredictionCurve], dict[str, tuple[SourceShare, ...]]]:
    curves: dict[str, PredictionCurve] = {}
    sources: dict[str, tuple[SourceShare, ...]] = {}
    for platform in dict.fromkeys(name for _, answer in answers for name in answer.curves):
        own = [(f, a) for f, a in answers if platform in a.curves]
        if len(own) == 1:
            family, answer = own[0]
            curves[platform] = answer.curves[platform]
            sources[platform] = answer.sources.get(platform) or _alone(family, curves[platform])
        else:
            curves[platform], sources[platform] = _merged(platform, own)
    return curves, sources


def _alone(family: Family, curve: PredictionCurve) -> tuple[SourceShare, ...]:
    point = curve.points[0]
    estimate = SourceEstimate(family.name, point.runtime_s, point.basis)
    return (SourceShare(family.name, 1.0, estimate.log_width, ""),)


def _merged(
    platform: str, answers: Sequence[tuple[Family, FamilyForecast]]
) -> tuple[PredictionCurve, tuple[SourceShare, ...]]:
    """Return one platform's curve and sources, combined from the predictions of several families.

    The curve has the core or GPU counts of the family with the best basis; the predictions of the
    others are interpolated there.
    """
    best = min(answers, key=lambda pair: pair[1].curves[platform].points[0].basis.rank)[1]
    points: list[Prediction] = []
    shares: tuple[SourceShare, ...] = ()
    for point in best.curves[platform].points:
        units = point.gpus or point.cores
        estimates = []
        for family, answer in answers:
            curve = answer.curves[platform]
            near = curve.nearest(units)
            estimates.append(
                SourceEstimate(
                    family.name,
                    curve.runtime_at(units),
                    near.basis,
                    abstained=near.abstained,
                    own_log_width=near.own_log_width,
                )
            )
        combined = combine(estimates)
        shares = shares or _with_methods(combined.shares, platform, answers)
        factor = point.runtime_s.mid / combined.seconds.mid
        energy = point.energy_j
        points.append(
            replace(
                point,
                runtime_s=combined.seconds,
                basis=combined.basis,
                abstained=combined.abstained,
                own_log_width=combined.own_log_width,
                launch_s=max(a.curves[platform].nearest(units).launch_s for _, a in answers),
                speedup=point.speedup.scaled(factor),
                energy_j=None if energy is None else energy.scaled(1 / factor),
            )
        )
    return PredictionCurve(tuple(points)), shares


def _with_methods(
    shares: tuple[SourceShare, ...], platform: str, answers: Sequence[tuple[Family, FamilyForecast]]
) -> tuple[SourceShare, ...]:
    """Return the sources of a combined prediction; where one family alone was used, the sources
    that this family itself names."""
    if len(shares) > 1:
        return shares
    own = next(answer for family, answer in answers if family.name == shares[0].source)
    return own.sources.get(platform) or shares


def _reference_time(
    question: Question,
    answers: Sequence[tuple[Family, FamilyForecast]],
    curves: Mapping[str, PredictionCurve],
) -> tuple[str, float | None, bool]:
    measured = next((a for _, a in answers if a.reference_s is not None), None)
    on = getattr(question.workload.document, "platform", None)
    named = on if isinstance(on, str) else ""
    if measured is not None:
        return measured.reference or named, measured.reference_s, True
    for reference in question.references:
        curve = curves.get(reference.name)
        if curve is not None:
            return reference.name, curve.points[-1].runtime_s.mid, False
    return named, None, False


def _ran_on(question: Question) -> tuple[str, ...]:
    """Return the platform of a program's pilot run and the requested platforms with the same
    hardware; nothing for a workload without a complete profile."""
    profile, home = question.workload.document, question.measured_on
    if not isinstance(profile, Profile) or not profile.complete:
        return ()
    same = (
        name
        for name, platform in question.platforms.items()
        if home is not None and same_hardware(platform, home)
    )
    return tuple(dict.fromkeys((profile.platform, *same)))


def _over(curve: PredictionCurve, reference_s: float) -> PredictionCurve:
    return PredictionCurve(
        tuple(replace(p, speedup=p.runtime_s.over(reference_s)) for p in curve.points)
    )


def _of_whole_job(forecast: Forecast, workload: Workload) -> Forecast:
    steps = workload.amount.steps
    if steps is None or workload.amount.unit is WorkUnit.JOB:
        return forecast
    reference = forecast.reference_runtime_s
    return replace(
        forecast,
        unit=WorkUnit.JOB,
        reference_runtime_s=None if reference is None else reference * steps,
        curves={
            name: PredictionCurve(
                tuple(
                    replace(
                        p,
                        runtime_s=p.runtime_s.scaled(steps),
                        energy_j=None if p.energy_j is None else p.energy_j.scaled(steps),
                    )
                    for p in curve.points
                )
            )
            for name, curve in forecast.curves.items()
        },
    )
