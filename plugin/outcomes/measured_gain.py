"""Measures what Berth's changes saved or cost, against control jobs (``berth jobs gain``).

With ``policy.control_share``, a random share of the submissions that Berth would change is left as
written, or gets the site's plain list of partitions (``policy.control``). Chance alone decides
which, so the arms differ by the treatment only, and what their jobs took is compared: the time from
submission to end, the cost, the energy. No prediction enters.

- Jobs are compared within strata: one program in one *period*, in which the share, the kind of
  control and the program version did not change. The figure is the Mantel-Haenszel ratio of the
  arms' means (Rothman, Greenland, Lash, *Modern Epidemiology*, 3rd edition, chapter 15), divided
  by that of the shares of jobs that completed: what one *completed* job took. What a failed or
  cancelled job took counts, too.
- Its variance is that of the linearised ratio, robust to clusters (Binder, *International
  Statistical Review* 51, 1983). A cluster is what was drawn: one submission, with all tasks of its
  array (Abadie, Athey, Imbens, Wooldridge, *Quarterly Journal of Economics* 138, 2023). Where
  clusters by user give the larger variance, that one counts (Angrist, Pischke, *Mostly Harmless
  Econometrics*, 2009, section 8.2: the larger of two guards against one that is too small).
- No verdict is given where the arms are not as large as the share says (sample-ratio mismatch:
  Fabijan and others, KDD 2019).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from berth.plugin.store.records import CHANGED, DecisionArm, RunSums
from berth.policies.codes import PLACES, Code
from berth.policies.objectives.time_and_cost import price_per_hour
from berth.policies.settings import Control
from berth.policies.values import Candidate, Resources

if TYPE_CHECKING:
    from berth.plugin.site.site import Site
    from berth.plugin.store import Store

FEWEST = 2
"""Least number of submissions of each arm from which an interval is computed."""
TOLD_APART = 1.1
"""The gain for which the number of days that are still needed is computed."""
_SIGMAS = 1.959964
"""Quantile of the normal distribution for an interval of 95 %."""
_VERDICT_SIGMAS = 3.0
"""Standard errors from no gain at which a verdict is given: people look at the figure every day,
and each look at a 95 % interval is one more chance to be misled."""
_SUSPECT = 1e-3
"""Probability below which a deviation from the drawn share is no chance."""
_DAY_S = 86_400.0


class ComparedJob(NamedTuple):
    """What one job that Berth changed, or would have changed, took."""

    stratum: tuple[str, ...]
    """The program (or the user of an unknown one), and the period."""
    user: str
    submission: str
    """The decision that drew the arm: one for all tasks of an array."""
    is_control: bool
    completed: bool
    value: float
    """Seconds from submission to end (or those of its wait, or run), cost, or joules."""


@dataclass(frozen=True, slots=True)
class MeasuredGain:
    """One quantity of the changed jobs of a program, or of all, against their control jobs."""

    quantity: str
    """``time`` (of which ``wait`` and ``run`` are the parts), ``cost`` or ``energy``."""
    control: str
    """Says what control jobs got: ``written`` or ``list`` (``policy.control``)."""
    program: str | None
    """None: all programs."""
    jobs: int
    """Number of changed jobs that have control jobs in their stratum."""
    failed: int
    """Number of them that did not complete: failed, cancelled, killed by their limit."""
    controls: int
    controls_failed: int
    users: int
    """Number of users who have control jobs."""
    total: float
    """What the changed jobs took in all: seconds, cost or joules."""
    ratio: float | None
    """What a completed control job took over what a completed changed job took, a mean over the
    jobs; over 1: the changes help. None: too few jobs completed."""
    ratio_interval: tuple[float, float] | None
    """The 95 % interval; None: too few jobs."""
    saved: float | None
    """Is what the changed jobs would have taken as control jobs, less ``total``; negative: a
    loss."""
    saved_interval: tuple[float, float] | None
    days: float
    """Days from the first to the last end of a job."""
    mismatch: str | None = None
    """Why the arms are not those that were drawn, so that no figure counts; None: they are."""

    @property
    def is_clear(self) -> bool:
        """Return whether the changes help, or harm, by three standard errors."""
        if self.ratio is None or self.ratio_interval is None or self.mismatch is not None:
            return False
        low, high = self.ratio_interval
        return abs(math.log(self.ratio)) > math.log(high / low) / 2 * _VERDICT_SIGMAS / _SIGMAS

    @property
    def more_days(self) -> float | None:
        """Return the days until a gain of 10 % can be told from none, if jobs come as until now;
        0: it could be told already. None: there is no interval yet."""
        if self.ratio_interval is None:
            return None
        low, high = self.ratio_interval
        width = math.log(high / low) / 2 * _VERDICT_SIGMAS / _SIGMAS
        return max(0.0, self.days * ((width / math.log(TOLD_APART)) ** 2 - 1))


def measured_gains(
    outcomes: Sequence[RunSums],
    decisions: Mapping[str, DecisionArm],
    candidates: Collection[Candidate] = (),
) -> list[MeasuredGain]:
    """Return the time, cost and energy of the changed jobs against each kind of control jobs, then
    the time by program; empty: there are no control jobs.

    ``candidates`` give the prices.
    """
    by_name = {candidate.name: candidate for candidate in candidates}
    jobs: dict[tuple[str, str], list[ComparedJob]] = defaultdict(list)
    ends_s = []
    for outcome in outcomes:
        decision = decisions.get(outcome.decision or "")
        if decision is None or not (arm := _arm(decision)):
            continue
        control = decision.control or Control.WRITTEN.value
        named = (outcome.workload, "") if outcome.workload else ("", outcome.user)
        stratum = (*named, *_period(decision))
        ends_s.append(outcome.end_s or 0.0)
        for quantity, value in _values(outcome, by_name.get(outcome.candidate or "")):
            job = ComparedJob(
                stratum, outcome.user, outcome.decision or "", arm != CHANGED,
                outcome.state == "completed", value,
            )  # fmt: skip
            jobs[quantity, control].append(job)
    days = (max(ends_s) - min(ends_s)) / _DAY_S if ends_s else 0.0
    gains, programs = [], []
    for (quantity, control), compared in jobs.items():
        gain = gain_of(compared)
        if gain is None:
            continue
        bad = sample_ratio_mismatch(decisions[name] for name in {j.submission for j in compared})
        gains.append(replace(gain, quantity=quantity, control=control, days=days, mismatch=bad))
        by_program: dict[str, list[ComparedJob]] = defaultdict(list)
        for job in compared if quantity == "time" and bad is None else ():
            by_program[job.stratum[0]].append(job)
        for program, of_program in by_program.items():
            if program and len(by_program) > 1 and (gain := gain_of(of_program)) is not None:
                programs.append(replace(gain, control=control, program=program, days=days))
    return [*gains, *sorted(programs, key=lambda gain: (-gain.total, gain.program or ""))]


def _arm(decision: DecisionArm) -> str | None:
    """Return the arm of a decision; None: it was in no experiment.

    Decisions from before arms were recorded are recognised by their code.
    """
    if decision.arm is not None:
        return decision.arm
    if decision.code == Code.CONTROL:
        return Control.WRITTEN.value
    is_placed = decision.action == "edit" and decision.code in PLACES
    return CHANGED if is_placed and decision.version is None else None


def _period(decision: DecisionArm) -> tuple[str, str]:
    """Return what was constant in the decision's period: share and version, or, where no share was
    recorded, its day."""
    if decision.share is None:
        return "", str(decision.time_s // _DAY_S)
    return str(decision.share), decision.version or ""


def _values(outcome: RunSums, candidate: Candidate | None) -> list[tuple[str, float]]:
    """Return what the job took of each quantity that is known."""
    values = []
    if outcome.submit_s is not None and outcome.end_s is not None:
        took_s = max(0.0, outcome.end_s - outcome.submit_s)
        waited_s = max(0.0, took_s - outcome.elapsed_s)
        values += [("time", took_s), ("wait", waited_s), ("run", took_s - waited_s)]
    if candidate is not None:
        held = Resources(outcome.nodes or 1, 1, outcome.cores or 1, outcome.gpus or 0)
        price = price_per_hour(candidate, held)
        if price is not None:
            values.append(("cost", price * outcome.elapsed_s / 3600.0))
    if outcome.energy_j:
        values.append(("energy", outcome.energy_j))
    return values


def sample_ratio_mismatch(decisions: Iterable[DecisionArm]) -> str | None:
    """Return a sentence where the arms' sizes do not fit the shares that were drawn with; None:
    they do, or no share was recorded."""
    periods: dict[float, list[int]] = defaultdict(lambda: [0, 0])
    for decision in decisions:
        if decision.share is not None and decision.arm is not None:
            periods[decision.share][decision.arm != CHANGED] += 1
    groups = [[(share, *counts)] for share, counts in periods.items()]
    groups.append([group[0] for group in groups])  # together: a small lack in each period
    for group in groups:
        variance = sum(share * (1 - share) * (a + b) for share, a, b in group)
        if variance < 9:  # the normal approximation of the binomial distribution
            continue
        drawn = sum(controls for _, _, controls in group)
        expected = sum(share * (a + b) for share, a, b in group)
        probability = math.erfc(abs(drawn - expected) / math.sqrt(2 * variance))
        if probability * len(groups) < _SUSPECT:
            return (
                f"{drawn:,} submissions are control jobs where {expected:,.0f} were to be drawn "
                f"(probability {probability:.1g}): outcomes of one group are missing, or jobs "
                "leave it"
            )
    return None


def gain_of(jobs: Sequence[ComparedJob]) -> MeasuredGain | None:
    """Return the gain of the changed jobs against the control jobs of their strata; None: no
    stratum has both."""
    both = {j.stratum for j in jobs if j.is_control} & {j.stratum for j in jobs if not j.is_control}
    jobs = [job for job in jobs if job.stratum in both]
    if not jobs:
        return None
    changed = [job for job in jobs if not job.is_control]
    controls = [job for job in jobs if job.is_control]
    total = sum(job.value for job in changed)
    gain = MeasuredGain(
        "time", "written", None, len(changed), sum(not j.completed for j in changed),
        len(controls), sum(not j.completed for j in controls), len({j.user for j in controls}),
        total, None, None, None, None, 0.0,
    )  # fmt: skip
    means = _means(jobs)
    ratio = _log_ratio(jobs, [job.value / (means[job.stratum[0]] or 1.0) for job in jobs])
    hours = _log_ratio(jobs, [job.value for job in jobs])
    if ratio is None or hours is None:
        return gain
    gain = replace(gain, ratio=math.exp(ratio[0]), saved=total * math.expm1(hours[0]))
    drawn = [len({job.submission for job in arm}) for arm in (changed, controls)]
    if min(drawn) < FEWEST:
        return gain
    wide = _SIGMAS * _small_sample_factor(min(drawn) - 1)
    ends = [(log - wide * error, log + wide * error) for log, error in (ratio, hours)]
    return replace(
        gain,
        ratio_interval=(math.exp(ends[0][0]), math.exp(ends[0][1])),
        saved_interval=(total * math.expm1(ends[1][0]), total * math.expm1(ends[1][1])),
    )


def _means(jobs: Sequence[ComparedJob]) -> Mapping[str, float]:
    """Return the mean value of each program's jobs, by which they weigh the same."""
    values: dict[str, list[float]] = defaultdict(list)
    for job in jobs:
        values[job.stratum[0]].append(job.value)
    return {program: sum(of) / len(of) for program, of in values.items()}


def _small_sample_factor(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t over that of the normal distribution.

    By the first two terms of its expansion (Abramowitz and Stegun, 26.7.5).
    """
    z = _SIGMAS
    terms = (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return 1 + terms / z


def _log_ratio(jobs: Sequence[ComparedJob], values: Sequence[float]) -> tuple[float, float] | None:
    """Return the log of control over changed and its standard error; None: not determined."""
    counts = Counter((job.stratum, job.is_control) for job in jobs)
    weights = [
        counts[j.stratum, not j.is_control] / (counts[j.stratum, True] + counts[j.stratum, False])
        for j in jobs
    ]
    took, completed = [0.0, 0.0], [0.0, 0.0]
    for job, value, weight in zip(jobs, values, weights, strict=True):
        took[job.is_control] += weight * value
        completed[job.is_control] += weight * job.completed
    if not all((*took, *completed)):
        return None
    log = math.log(took[1] / completed[1]) - math.log(took[0] / completed[0])
    scores = [
        value / took[job.is_control] - job.completed / completed[job.is_control]
        for job, value in zip(jobs, values, strict=True)
    ]
    sums: dict[tuple[str, ...], float] = defaultdict(float)
    submissions: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for job, score in zip(jobs, scores, strict=True):
        sums[job.stratum] += score
        submissions[job.stratum].add(job.submission)
    by_submission: dict[str, float] = defaultdict(float)
    by_user: dict[str, float] = defaultdict(float)
    for job, score, weight in zip(jobs, scores, weights, strict=True):
        stratum, drawn = job.stratum, len(submissions[job.stratum])
        mean = sums[stratum] / (counts[stratum, True] + counts[stratum, False])
        residual = weight * (score - mean) * math.sqrt(drawn / (drawn - 1))
        for clusters, name in ((by_submission, job.submission), (by_user, job.user)):
            clusters[name] += residual if job.is_control else -residual
    variance = max(
        sum(residual**2 for residual in clusters.values()) * len(clusters) / (len(clusters) - 1)
        for clusters in (by_submission, by_user)
        if len(clusters) > 1
    )
    return log, math.sqrt(variance)


def gains_of(
    store: Store, ended: Sequence[RunSums], site: Site | None
) -> tuple[list[MeasuredGain], dict[str, int]]:
    """Return the measured gains of these jobs, and the number of jobs by what their decision was
    based on (``policies.codes.Ground``).
    """
    decisions = store.decisions.arms({job.decision for job in ended if job.decision})
    of_jobs = (decisions.get(job.decision or "") for job in ended)
    grounds = Counter(d.ground for d in of_jobs if d is not None and d.ground)
    measured = measured_gains(ended, decisions, () if site is None else site.candidates)
    return measured, dict(grounds)
