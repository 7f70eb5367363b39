"""Measures what Berth's changes saved or cost, against control jobs (``berth jobs gain``).

With ``policy.control``, a random share of the jobs that Berth would change is left as written.
Because chance alone decides which, the two groups differ by the changes only, and what their jobs
took is compared: the time from submission to end, the cost, the energy. No prediction enters.

Jobs are compared within programs: the figure is the Mantel-Haenszel ratio of the two groups' means
(Rothman, Greenland, Lash, *Modern Epidemiology*, 3rd edition, chapter 15), which needs no least
number of jobs in a program. What a failed job took counts, and the ratio is divided by that of the
shares of jobs that completed: it is what one *completed* job took. Intervals are by a bootstrap
over users, because the jobs of one user are not independent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from berth.plugin.store.records import DecisionRanking, RunSums
from berth.policies.codes import PLACES, Code
from berth.policies.objectives.time_and_cost import price_per_hour
from berth.policies.values import Candidate, Resources
from berth.predictor.core.arrays import Floats

if TYPE_CHECKING:
    from berth.plugin.site.site import Site
    from berth.plugin.store import Store

MOST = 10_000
"""Maximum number of jobs compared, the newest ones: each decision's ranking must be read."""
DRAWS = 1_000
FEWEST_USERS = 5
"""With fewer users who have control jobs, the bootstrap is over jobs."""
FEWEST = 2
"""Least number of jobs of each group, or of users, from which an interval is computed."""
TOLD_APART = 1.1
"""The gain for which the number of days that are still needed is computed."""
_SIGMAS = 1.959964
"""Quantile of the normal distribution for an interval of 95 %."""
_NOT_COUNTED = frozenset({"cancelled"})
"""States of jobs whose end their users chose."""


class ComparedJob(NamedTuple):
    """What one job that Berth changed, or would have changed, took."""

    program: str
    user: str
    is_control: bool
    completed: bool
    value: float
    """Seconds from submission to end, cost, or joules."""


@dataclass(frozen=True, slots=True)
class MeasuredGain:
    """One quantity of the changed jobs of a program, or of all, against their control jobs."""

    quantity: str
    """``time``, ``cost`` or ``energy``."""
    program: str | None
    """None: all programs."""
    jobs: int
    """Number of changed jobs of programs that have control jobs."""
    failed: int
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
    """What the changed jobs would have taken unchanged, less ``total``; negative: a loss."""
    saved_interval: tuple[float, float] | None
    days: float
    """Days from the first to the last end of a job."""

    @property
    def is_clear(self) -> bool:
        """Return whether the interval says that the changes help, or that they harm."""
        return self.ratio_interval is not None and not (
            self.ratio_interval[0] <= 1.0 <= self.ratio_interval[1]
        )

    @property
    def more_days(self) -> float | None:
        """Return the days until a gain of 10 % can be told from none, if jobs come as until now;
        0: it could be told already. None: there is no interval yet."""
        if self.ratio_interval is None:
            return None
        low, high = self.ratio_interval
        width = math.log(high / low) / 2
        return max(0.0, self.days * ((width / math.log(TOLD_APART)) ** 2 - 1))


def measured_gains(
    outcomes: Sequence[RunSums],
    decisions: Mapping[str, DecisionRanking],
    candidates: Collection[Candidate] = (),
) -> list[MeasuredGain]:
    """Return the time, cost and energy of the changed jobs against their control jobs, then the
    time by program; empty: there are no control jobs.

    ``candidates`` give the prices.
    """
    by_name = {candidate.name: candidate for candidate in candidates}
    jobs: dict[str, list[ComparedJob]] = {"time": [], "cost": [], "energy": []}
    ends_s = []
    for outcome in outcomes:
        decision = decisions.get(outcome.decision or "")
        is_control = decision is not None and decision.code == Code.CONTROL
        is_changed = decision is not None and decision.action == "edit" and decision.code in PLACES
        if not (is_control or is_changed) or outcome.state in _NOT_COUNTED or not outcome.workload:
            continue
        ends_s.append(outcome.end_s or 0.0)
        for quantity, value in _values(outcome, by_name.get(outcome.candidate or "")):
            completed = outcome.state == "completed"
            job = ComparedJob(outcome.workload, outcome.user, is_control, completed, value)
            jobs[quantity].append(job)
    days = (max(ends_s) - min(ends_s)) / 86_400.0 if ends_s else 0.0
    gains = [
        replace(gain, quantity=quantity, days=days)
        for quantity, of_quantity in jobs.items()
        if (gain := gain_of(of_quantity)) is not None
    ]
    by_program: dict[str, list[ComparedJob]] = {}
    for job in jobs["time"]:
        by_program.setdefault(job.program, []).append(job)
    programs = [
        replace(gain, program=program, days=days)
        for program, of_program in by_program.items()
        if len(by_program) > 1 and (gain := gain_of(of_program)) is not None
    ]
    return [*gains, *sorted(programs, key=lambda gain: (-gain.total, gain.program or ""))]


def _values(outcome: RunSums, candidate: Candidate | None) -> list[tuple[str, float]]:
    """Return what the job took of each quantity that is known."""
    values = []
    if outcome.submit_s is not None and outcome.end_s is not None:
        values.append(("time", max(0.0, outcome.end_s - outcome.submit_s)))
    if candidate is not None:
        held = Resources(outcome.nodes or 1, 1, outcome.cores or 1, outcome.gpus or 0)
        price = price_per_hour(candidate, held)
        if price is not None:
            values.append(("cost", price * outcome.elapsed_s / 3600.0))
    if outcome.energy_j:
        values.append(("energy", outcome.energy_j))
    return values


def gain_of(jobs: Sequence[ComparedJob]) -> MeasuredGain | None:
    """Return the gain of the changed jobs against the control jobs of the same programs; None:
    no program has both."""
    both = {j.program for j in jobs if j.is_control} & {j.program for j in jobs if not j.is_control}
    jobs = [job for job in jobs if job.program in both]
    if not jobs:
        return None
    changed = [job for job in jobs if not job.is_control]
    controls = [job for job in jobs if job.is_control]
    users = {job.user for job in controls}
    table = _GroupSums(jobs)
    total = sum(job.value for job in changed)
    ratio, hours = (float(logs[0]) for logs in table.log_ratios(np.ones((1, table.clusters))))
    gain = MeasuredGain(
        "time", None, len(changed), sum(not j.completed for j in changed), len(controls),
        sum(not j.completed for j in controls), len(users), total,
        None, None, None, None, 0.0,
    )  # fmt: skip
    if not (math.isfinite(ratio) and math.isfinite(hours)):
        return gain
    gain = replace(gain, ratio=math.exp(ratio), saved=total * math.expm1(hours))
    clusters = len(users) if table.by_user else len(controls)
    if clusters < FEWEST or len(changed) < FEWEST:
        return gain
    generator = np.random.default_rng(0)
    share = np.full(table.clusters, 1 / table.clusters)
    drawn = table.log_ratios(generator.multinomial(table.clusters, share, DRAWS).astype(float))
    wide = _SIGMAS * _small_sample_factor(clusters - 1)
    widths = [wide * float(np.std(logs[np.isfinite(logs)])) for logs in drawn]
    return replace(
        gain,
        ratio_interval=(math.exp(ratio - widths[0]), math.exp(ratio + widths[0])),
        saved_interval=(
            total * math.expm1(hours - widths[1]),
            total * math.expm1(hours + widths[1]),
        ),
    )


def _small_sample_factor(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t over that of the normal distribution.

    By the first two terms of its expansion (Abramowitz and Stegun, 26.7.5).
    """
    z = _SIGMAS
    terms = (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return 1 + terms / z


class _GroupSums:
    """Sums over the jobs by cluster (user, or job), program and group."""

    def __init__(self, jobs: Sequence[ComparedJob]) -> None:
        self.by_user = len({job.user for job in jobs if job.is_control}) >= FEWEST_USERS
        names = [job.user if self.by_user else str(row) for row, job in enumerate(jobs)]
        cluster, program = _numbers(names), _numbers([job.program for job in jobs])
        self.clusters, self._programs = int(cluster.max()) + 1, int(program.max()) + 1
        column = program + self._programs * np.array([job.is_control for job in jobs])
        value = np.array([job.value for job in jobs])
        mean = np.bincount(program, value) / np.bincount(program)
        relative = np.divide(value, mean[program], out=np.ones(len(jobs)), where=mean[program] > 0)
        completed = np.array([float(job.completed) for job in jobs])
        self._sums = []
        for quantity in (np.ones(len(jobs)), completed, relative, value):
            sums = np.zeros((self.clusters, 2 * self._programs))
            np.add.at(sums, (cluster, column), quantity)
            self._sums.append(sums)

    def log_ratios(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the logs of control over changed for each row of weights (draws x clusters).

        The first are of the values relative to their program's mean, so that jobs weigh the same;
        the second of the values, so that their units do. Infinite or NaN: not determined.
        """
        count, completed, relative, value = (
            (weights @ sums).reshape(len(weights), 2, self._programs) for sums in self._sums
        )
        every = count.sum(axis=1)
        other = np.divide(count, every[:, None], out=np.zeros_like(count), where=every[:, None] > 0)
        logs = []
        for quantity in (completed, relative, value):
            changed = (quantity[:, 0] * other[:, 1]).sum(axis=1)
            control = (quantity[:, 1] * other[:, 0]).sum(axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                logs.append(np.log(control) - np.log(changed))
        return logs[1] - logs[0], logs[2] - logs[0]


def _numbers(names: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.unique(np.array(names), return_inverse=True)[1].reshape(-1)


def gains_of(
    store: Store, ended: Sequence[RunSums], site: Site | None
) -> tuple[list[MeasuredGain], dict[str, int]]:
    """Return the measured gains of the newest ``MOST`` jobs, and the number of jobs by what their
    decision was based on (``policies.codes.Ground``).
    """
    newest = ended[-MOST:]
    decisions = store.decisions.rankings({job.decision for job in newest if job.decision})
    of_jobs = (decisions.get(job.decision or "") for job in newest)
    grounds = Counter(d.ground for d in of_jobs if d is not None and d.chosen and d.ground)
    measured = measured_gains(newest, decisions, () if site is None else site.candidates)
    return measured, dict(grounds)
