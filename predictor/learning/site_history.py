"""Learning from all finished jobs of a site in the order of their ends.

Each job is first predicted from all earlier jobs and then learnt from. The difference of the log
times, in standard deviations, is the job's surprise. Sums of surprises detect changes of a program
or a platform (``surprises``), and online factors widen or narrow intervals so that 90 % hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from berth.predictor.core.forecast import Forecast
from berth.predictor.learning.cells import SHIPPED, Hardware, RunResidual, phase
from berth.predictor.learning.effects import NO_EFFECTS, Effects, Information, effects_of
from berth.predictor.learning.evidence import Evidence, place_of, run_of
from berth.predictor.learning.learnt import SiteEvidence
from berth.predictor.learning.posterior import MOST_RUNS, Posterior
from berth.predictor.learning.surprises import (
    ChangePoint,
    CoverageGrid,
    Cusum,
    Holding,
    ProgramCoverage,
    holding,
    interval_factors,
)

LATEST = 200
"""Number of latest surprises of a platform from which the factor on its intervals is computed."""
_SEVERAL = 2
"""Number of programs that must be surprised before a platform counts as changed."""


@dataclass(slots=True)
class _LearntJob:
    """A finished job that was learnt from, with the prediction error of its time."""

    evidence: Evidence
    run: RunResidual
    score: float | None
    """Surprise of the job in standard deviations; None where its time limit cut it off."""
    before: int = 0
    """Number of earlier runs of its program."""
    epoch: int = 0
    place_epoch: int = 0


@dataclass(slots=True)
class _ProgramState:
    """State of one program (workload) of the site."""

    jobs: list[_LearntJob] = field(default_factory=list)
    sums: Cusum = field(default_factory=Cusum)
    summed: list[_LearntJob] = field(default_factory=list)
    count: int = 0
    """Number of all jobs of the program, also of those no longer stored."""
    epoch: int = 0
    held: ProgramCoverage = field(default_factory=ProgramCoverage)
    information: Information | None = None
    """What the program's runs say about platform offsets; None: not computed yet."""
    alone: tuple[int, Posterior] | None = None
    """Number of jobs and the posterior after them without platform effects; None: not computed
    yet."""

    def forget_fits(self) -> None:
        """Discard cached fits, because runs of the program were moved to other epochs."""
        self.information = self.alone = None


@dataclass(slots=True)
class _PlatformState:
    """State of one platform of the site."""

    place: Hardware
    scores: list[tuple[int, float]] = field(default_factory=list)
    """Surprise of each job, preceded by the number of earlier runs of its program."""
    sums: Cusum = field(default_factory=Cusum)
    summed: list[_LearntJob] = field(default_factory=list)
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class DetectedChange:
    """A detected change of a workload or a platform."""

    name: str
    """Name of the workload or of the platform."""
    is_platform: bool
    slower: bool
    """Whether jobs became slower than expected; otherwise they became faster."""
    since_s: float
    """End of the first surprising job, Unix time in seconds."""
    noticed_s: float
    """End of the job at which the change was detected, Unix time in seconds."""
    jobs: int
    """Number of jobs from the first surprising one to the detection."""


class SiteHistory:
    """Everything learnt from a site's finished jobs; deterministic in their order."""

    def __init__(self, forecasts: Mapping[str, Forecast]) -> None:
        """Start without finished jobs; ``forecasts``: by workload, made without learning."""
        self._forecasts = forecasts
        self._programs: dict[str, _ProgramState] = {}
        self._platforms: dict[str, _PlatformState] = {}
        self._held: CoverageGrid | None = None
        """Coverage over all programs; None: to be summed up again."""
        self._holds: dict[str, Holding] = {}
        """Coverage of intervals by platform; platforms to be computed again are absent."""
        self.changes: list[DetectedChange] = []

    @property
    def platforms(self) -> tuple[str, ...]:
        """Return the names of the platforms on which jobs ran, sorted."""
        return tuple(sorted(self._platforms))

    def add(self, evidence: Evidence, score: float | None = None) -> float | None:
        """Learn from one more finished job; return its prediction error in standard deviations of
        log time.

        ``score``: the error where it is known already. None is returned where the job was cut off
        or its platform has no forecast.
        """
        forecast = self._forecasts.get(evidence.workload)
        place = None if forecast is None else place_of(evidence.platform, forecast)
        if forecast is None or place is None:
            return None
        program = self._programs.setdefault(evidence.workload, _ProgramState())
        platform = self._platforms.setdefault(place.platform, _PlatformState(place))
        stamped = evidence
        if program.epoch or platform.epoch:
            stamped = replace(evidence, epoch=program.epoch, place_epoch=platform.epoch)
        run = run_of(stamped, forecast)
        if run is None:
            return None
        if score is None and not evidence.censored:
            posterior = self._alone(program, len(program.jobs))
            expected = posterior.under(self._effects(evidence.workload)).expected([run.cell])
            deviation = math.hypot(expected.deviation[0], run.clock_deviation)
            score = float((run.log_residual - expected.mean[0]) / deviation)
        seen = _LearntJob(evidence, run, score, program.count, program.epoch, platform.epoch)
        ran_before = any(_alike(job.run, run) for job in program.jobs)
        program.jobs.append(seen)
        program.count += 1
        if len(program.jobs) > MOST_RUNS:
            del program.jobs[:-MOST_RUNS]
            program.alone = None
        if _looked_at(program.count) == program.count:
            program.information = None
        if score is not None:
            program.held.add(seen.before, score)
            self._held = None
            self._holds.clear()
            platform.scores.append((seen.before, score))
            del platform.scores[:-LATEST]
            if ran_before:  # the surprise of a first run is the forecast's error, not a change
                self._look_for_changes(seen, program, platform, score)
        return score

    def runs(self, workload: str) -> list[RunResidual]:
        """Return the learnt-from runs of a workload, each with the detected changes before it
        (epochs)."""
        program = self._programs.get(workload)
        return [] if program is None else [_run(seen) for seen in program.jobs]

    def standing(self, workload: str) -> SiteEvidence:
        """Return what other workloads' jobs, and earlier prediction errors, say about a workload's
        next forecast."""
        program = self._programs.get(workload)
        jobs = [] if program is None else program.jobs
        own = [(job.before, job.score) for job in jobs if job.score is not None]
        interval = self._interval(workload)
        holds = {name: self.holding(name) for name in self.platforms}
        return SiteEvidence(
            effects=self._effects(workload),
            factors={name: job.factor for name, job in holds.items()},
            factor=_held(own, interval).factor,
            interval=interval,
            epoch=0 if program is None else program.epoch,
            place_epochs={name: job.epoch for name, job in self._platforms.items()},
            doubted={name: _doubt(name, job) for name, job in holds.items() if job.fails},
        )

    def holding(self, platform: str) -> Holding:
        """Return how many of a platform's recent job times were inside their intervals, and the
        width factor."""
        if platform not in self._holds:
            interval = self._interval()
            self._holds = {n: _held(p.scores, interval) for n, p in self._platforms.items()}
        return self._holds.get(platform) or _held([], SHIPPED.interval)

    def surprise(self, platform: str) -> tuple[float, float]:
        """Return the CUSUM sums of prediction errors on a platform: (slower, faster) than expected.

        At ``surprises.LIMIT`` the platform counts as changed.
        """
        known = self._platforms.get(platform)
        return (0.0, 0.0) if known is None else known.sums.sums

    def standing_digest(self, workload: str) -> list[object]:
        """Return a rounded form of ``standing``; a new forecast is worthwhile only when it
        changes."""
        at = self.standing(workload)
        spread = at.effects.covariance.diagonal() ** 0.5
        program = self._programs.get(workload)
        return [
            list(at.effects.places),
            [round(float(number), 2) for number in at.effects.mean],
            [round(float(number), 1) for number in spread],
            {name: round(number, 1) for name, number in at.factors.items()},
            round(at.factor, 1),
            [round(number, 1) for number in at.interval or ()],
            [] if program is None else [[s.epoch, s.place_epoch] for s in program.jobs],
            at.epoch,
            dict(at.place_epochs),
            sorted(at.doubted),
        ]

    def _interval(self, workload: str | None = None) -> tuple[float, ...]:
        if self._held is None:
            self._held = sum((program.held for program in self._programs.values()), CoverageGrid())
        own = self._programs.get(workload or "")
        others = self._held if own is None else self._held - own.held
        return interval_factors(others, SHIPPED)

    def _effects(self, workload: str) -> Effects:
        """Return the log-time offsets of platforms that all programs except ``workload`` show."""
        places = [
            (self._platforms[name].place, epoch)
            for name in self.platforms
            for epoch in range(self._platforms[name].epoch + 1)
        ]
        keys = [(place.platform, epoch) for place, epoch in places]
        others = []
        for name, program in self._programs.items():
            if name == workload or not program.jobs:
                continue
            if program.information is None or len(program.information.shift) != len(places):
                looked_at = len(program.jobs) - program.count + _looked_at(program.count)
                posterior = self._alone(program, looked_at)
                program.information = posterior.information(keys)
            others.append(program.information)
        if not others:
            return NO_EFFECTS
        precision = np.array([information.precision for information in others]).sum(axis=0)
        shift = np.array([information.shift for information in others]).sum(axis=0)
        chosen = [
            n
            for n, (place, _) in enumerate(places)
            if self._platforms[place.platform].epoch or precision[n, n] > 0
        ]
        if not chosen:
            return NO_EFFECTS
        of_these = Information(precision[chosen][:, chosen], shift[chosen])
        return effects_of([places[n] for n in chosen], of_these)

    def _alone(self, program: _ProgramState, jobs: int) -> Posterior:
        if program.alone is None or program.alone[0] != jobs:
            runs = [_run(seen) for seen in program.jobs[:jobs]]
            program.alone = jobs, Posterior(runs)
        return program.alone[1]

    def _look_for_changes(
        self, seen: _LearntJob, program: _ProgramState, platform: _PlatformState, score: float
    ) -> None:
        """Add a job's prediction error to the CUSUM sums of its platform and program; start a new
        epoch at a change."""
        platform.summed.append(seen)
        program.summed.append(seen)
        change = platform.sums.add(score)
        if change is not None:
            excursion = platform.summed[change.first : change.seen + 1]
            if len({job.evidence.workload for job in excursion}) >= _SEVERAL:
                platform.epoch += 1
                for job in excursion:
                    job.place_epoch = platform.epoch
                self._note(platform.place.platform, True, change, excursion)
                for name in {job.evidence.workload for job in excursion}:
                    self._programs[name].sums = Cusum()
                    self._programs[name].summed.clear()
                    self._programs[name].forget_fits()
                return
        own = program.sums.add(score)
        if own is not None:
            excursion = program.summed[own.first : own.seen + 1]
            program.epoch += 1
            for job in excursion:
                job.epoch = program.epoch
            program.forget_fits()
            self._note(seen.evidence.workload, False, own, excursion)

    def _note(
        self, name: str, is_platform: bool, change: ChangePoint, excursion: list[_LearntJob]
    ) -> None:
        self.changes.append(
            DetectedChange(
                name,
                is_platform,
                change.slower,
                excursion[0].evidence.ended_s,
                excursion[-1].evidence.ended_s,
                len(excursion),
            )
        )


def _looked_at(count: int) -> int:
    """Return how many of a program's first ``count`` jobs are used to learn about platforms.

    All of a few jobs are used; of many, up to the last eighth is ignored, so that not every job of
    a program changes the forecasts of all others.
    """
    step = max(1, (1 << count.bit_length()) // 16)
    return count - count % step


def _run(seen: _LearntJob) -> RunResidual:
    cell = seen.run.cell._replace(epoch=seen.epoch, place_epoch=seen.place_epoch)
    return replace(seen.run, cell=cell)


def _alike(first: RunResidual, second: RunResidual) -> bool:
    ours, theirs = first.cell, second.cell
    return ours.place == theirs.place and ours.row.log_nodes == theirs.row.log_nodes


def _held(scores: Sequence[tuple[int, float]], interval: Sequence[float]) -> Holding:
    """Return how many recent job times were inside intervals widened by the factors ``interval``
    (by phase).

    ``scores``: (earlier runs of the program, surprise) of each job, the oldest first.
    """
    return holding([score / interval[phase(before)] for before, score in scores])


def _doubt(platform: str, held: Holding) -> str:
    return (
        f"predicted times on {platform} held for only {held.inside} of the last {held.jobs} "
        "jobs: not relied on until they hold again"
    )
