"""Predicts the run time of the next job from matching past jobs, for history workloads.

The predictor (``predictor.learning.history``) learns from the jobs of one user only, so that no
user changes another user's forecasts, or from all users' jobs where the site trusts them. It
predicts the next job once for each type of match; attributes that a match does not imply are
assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from berth.pilot.run import Run
from berth.plugin.history.matching import Match, known_name
from berth.predictor.core.prediction import Interval
from berth.predictor.families.history.workload import PredictedRun
from berth.predictor.learning.history import AskedJob, JobEnd, PastJob, RunTimePredictor
from berth.predictor.learning.history import learn_from as learn_jobs

JOBS = 20_000
"""Maximum number of past jobs, the newest ones, that predictions are learnt from."""
_ENDED_WELL = frozenset(("completed", "timeout"))
UNITS = 8
"""Maximum number of core or GPU counts predicted per platform, the most recently used ones."""
ANOTHER_LIMIT = 1.25
"""Factor on the newest job's time limit that is assumed for the next job where the match ignores
the limit."""

WITHOUT_LIMIT = 0.4
"""Exponent for widening an interval where the match ignores the time limit: both ends move by
(longest / shortest recent run time) to this power.

Jobs with a time limit that is new for their user differ from earlier jobs by more than a usual
interval. With this exponent the intervals cover 90 % of such jobs' run times, as a mean over the
users of the first fifth of the RICC trace, on which the exponent was chosen
(docs/figures-history.md).
"""
RANGE_OF = 50
"""Number of the newest run times from which the longest and the shortest are taken."""


def without_limit(runtime_s: Interval, runs_s: Sequence[float]) -> Interval:
    """Return a predicted interval (s) widened for a match that ignores the time limit;
    ``runs_s``: run times of the matched past jobs (s), the newest last."""
    last = [max(run_s, 1.0) for run_s in runs_s[-RANGE_OF:]]
    factor = (max(last) / min(last)) ** WITHOUT_LIMIT
    return Interval(runtime_s.low / factor, runtime_s.mid, runtime_s.high * factor)


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """A past job with the platform of the partition where it ran."""

    job: Run
    platform: str

    @property
    def ended_well(self) -> bool:
        """Return whether its time, or a bound of it, is its program's, and its memory was enough: a
        failed job ends whenever it fails, perhaps for lack of memory."""
        return self.job.state in _ENDED_WELL

    @property
    def units(self) -> tuple[int, int]:
        """Return the numbers of cores and GPUs that the job had."""
        return self.job.cores or 1, self.job.gpus or 0


class RunTimes:
    """Predicts run times of next jobs from past jobs."""

    def __init__(self, jobs: Sequence[PlacedJob]) -> None:
        """Learn from ``jobs``, which must be in order of their ends."""
        self._predictor = RunTimePredictor()
        timed = [_past_job(placed) for placed in jobs[-JOBS:] if placed.ended_well]
        learn_jobs(timed, self._predictor)

    def of_match(self, match: Match, jobs: Iterable[PlacedJob], now_s: float) -> list[PredictedRun]:
        """Return the predicted run of the next job, submitted at Unix time ``now_s``, for each
        platform and number of cores or GPUs among ``jobs`` (past jobs it is matched with, the
        oldest first)."""
        newest: dict[tuple[str, int], PlacedJob] = {}
        matched = [placed for placed in jobs if placed.ended_well]
        runs_s = [placed.job.elapsed_s for placed in matched]
        for placed in reversed(matched):
            cores, gpus = placed.units
            newest.setdefault((placed.platform, -gpus or cores), placed)
        predicted_count: dict[str, int] = {}
        predicted = []
        for placed in newest.values():
            predicted_count[placed.platform] = predicted_count.get(placed.platform, 0) + 1
            if predicted_count[placed.platform] <= UNITS:
                predicted.append(self._predicted(match, placed, runs_s, now_s))
        return predicted

    def _predicted(
        self, match: Match, like: PlacedJob, runs_s: Sequence[float], now_s: float
    ) -> PredictedRun:
        question = _question(match, like, now_s)
        prediction = self._predictor.predict(question, now_s)
        cores, gpus = like.units
        expected = prediction.runtime_s
        if question.request_s is not None and question.request_s != like.job.time_limit_s:
            expected = without_limit(expected, runs_s)
        return PredictedRun(
            platform=like.platform,
            cores=cores,
            gpus=gpus,
            low_s=expected.low,
            mid_s=expected.mid,
            high_s=expected.high,
            accuracy=prediction.accuracy,
            trusted=prediction.trusted or match is Match.ACCOUNT,
        )


def _past_job(placed: PlacedJob) -> PastJob:
    job = placed.job
    ended = JobEnd(
        _asked_job(placed), job.end_s or 0.0, max(job.elapsed_s, 1.0), job.state == "completed"
    )
    return PastJob(f"{job.cluster}/{job.job_id}", job.start_s or 0.0, ended)


def _asked_job(placed: PlacedJob) -> AskedJob:
    job = placed.job
    return AskedJob(
        user=job.user,
        submit_s=job.submit_s or 0.0,
        cores=job.cores or 1,
        request_s=job.time_limit_s,
        request_bytes=job.request_bytes,
        account=job.account,
        name=known_name(job.name, job.program),
        script=job.arguments or job.script,
        similar=job.similar,
        platform=placed.platform,
    )


def _question(match: Match, like: PlacedJob, now_s: float) -> AskedJob:
    """Return the attributes of the next job: those that the match implies, the others copied
    from ``like``."""
    job, known = like.job, _asked_job(like)
    exact = match in (Match.SCRIPT, Match.ARGUMENTS)
    limit_s = job.time_limit_s
    if limit_s is not None and match not in (Match.LIMIT, Match.SHAPE):
        limit_s = limit_s if exact else limit_s * ANOTHER_LIMIT
    return AskedJob(
        user="" if match is Match.ACCOUNT else known.user,
        submit_s=now_s,
        cores=known.cores,
        request_s=limit_s,
        request_bytes=known.request_bytes,
        account=known.account,
        name=known.name,
        script=known.script if exact else "",
        similar=known.similar if exact or match is Match.SIMILAR else "",
        platform=known.platform,
    )
