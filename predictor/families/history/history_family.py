"""The history family: run time of the next job, from past jobs of its program and from the ratios
between kinds of hardware.

Where the workload contains predictions (``learning.history``, from all past jobs of its user),
these are returned. Otherwise the prediction is the median of past times with the 90 % prediction
interval of a log-normal sample (Student's t; Hahn and Meeker, "Statistical Intervals", 1991, 4.6),
and a least width for programs that ran once or always took the same time.

Where the workload contains ratios, the times on its *homes*, the platforms to which they relate,
are predicted so, and those on the other platforms are a home's times multiplied by the ratio. How
long the next job takes is then an error that all platforms of the first home share; a platform's
own error (``Prediction.own_log_width``) is that of its ratio. Nothing is predicted for a platform
where the program never ran and that no ratio relates to a home.
"""

from __future__ import annotations

from berth.pilot.platform import Platform
from berth.predictor.core.family import Bundles, Explanation, FamilyForecast, Question
from berth.predictor.core.forecast import SourceShare
from berth.predictor.core.prediction import PredictionCurve
from berth.predictor.core.workload import Workload
from berth.predictor.families.history.by_ratio import scaled_curve
from berth.predictor.families.history.times_there import curve_of_runs
from berth.predictor.families.history.workload import HistoryWorkload, KindRatio

BY_KERNELS = "history: ratio of benchmark kernels"
MEDIAN, WEIGHED = "history: past runs", "history: past jobs weighed"
BY_RATIO = "history: ratio of the kinds"
ANY_JOB = "history: time of any job"
"""The source of an unknown program's time on its home: only ratios to it are known."""


class HistoryFamily:
    """The family of programs known from past jobs; all its predictions rest on measurements."""

    name = "history"

    @classmethod
    def load(cls, _: Bundles) -> HistoryFamily:
        """Return the family, which needs no bundle."""
        return cls()

    def accepts(self, workload: Workload) -> bool:
        """Return whether the workload's document is a history of past jobs."""
        return isinstance(workload.document, HistoryWorkload)

    def forecast(self, question: Question) -> FamilyForecast:
        """Return a curve for each platform with past jobs or a ratio, with one point per number of
        cores or GPUs used."""
        document = question.document(HistoryWorkload)
        curves: dict[str, PredictionCurve] = {}
        sources = {}
        for name, platform in question.platforms.items():
            own = curve_of_runs(question, platform, name)
            ratio = next((r for r in document.ratios if r.platform == name), None)
            curve = scaled_curve(question, document, platform, ratio, own)
            if curve is not None:
                curves[name] = curve
                sources[name] = (_source(document, name, curve, ratio),)
        return FamilyForecast(bundle="", curves=curves, sources=sources, fails_on=document.fails_on)

    def explain(self, question: Question, platform: Platform) -> Explanation:
        """Return a sentence with the number of finished jobs on the platform, and its ratio."""
        document = question.document(HistoryWorkload)
        count = sum(run.platform == platform.name for run in document.runs)
        sentence = f"{count} finished jobs ran on {platform.name}."
        for ratio in document.ratios:
            if ratio.platform == platform.name:
                sentence += (
                    f" A job takes {ratio.mid:.2f} times as long there as on {ratio.than} "
                    f"({ratio.low:.2f} to {ratio.high:.2f}; {_grounds(ratio)} ran on both)."
                )
        return Explanation(sentence)


def _source(
    document: HistoryWorkload, name: str, curve: PredictionCurve, ratio: KindRatio | None
) -> SourceShare:
    width = curve.points[0].runtime_s.log_width
    if ratio is not None:
        source = BY_RATIO if ratio.programs else BY_KERNELS
        return SourceShare(source, 1.0, width, f"{_grounds(ratio)} on both kinds")
    if not document.runs:
        return SourceShare(ANY_JOB, 1.0, width, "no run of this program is known")
    is_weighed = any(run.platform == name for run in document.predicted or ())
    count = sum(run.platform == name for run in document.runs)
    return SourceShare(WEIGHED if is_weighed else MEDIAN, 1.0, width, f"{count} runs there")


def _grounds(ratio: KindRatio) -> str:
    if not ratio.programs:
        return f"{ratio.kernels} benchmark kernels"
    return "1 program" if ratio.programs == 1 else f"{ratio.programs} programs"
