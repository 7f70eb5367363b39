"""The joint distribution of a workload's times on many platforms, and advice on which to measure
next.

``joint_of`` builds the distribution from predictions with separate intervals. The correlation of
their errors was measured on public data (AIWC). Errors on
different GPUs are strongly correlated, since a program that runs badly on one GPU runs badly on the
next; errors on CPUs are hardly correlated, since the pilot itself ran on a CPU. ``updated`` moves
the predictions by the times measured on some platforms.

``advise`` names the platforms on which a short pilot run (a probe) would reduce the expected regret
most. This is the expected value of sample information for picking the best of correlated normals:
computed by ``core.value_of_run`` for one probe, and by seeded antithetic draws for two. Regret is
the log of the time on the picked platform over the least time: ``E[min_j mean_j after the probe] -
E[min_j time_j]`` (``j``: platforms; times in log seconds). Errors with lighter tails than a
Gaussian make this estimate too large; ``JointTimes.regret_share`` is the share of it that was
observed on held-out applications.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import NORMAL_90, around
from berth.predictor.core.prediction import Basis, Interval, Prediction
from berth.predictor.core.value_of_run import (
    GPU_CORRELATION,
    OTHER_CORRELATION,
    REGRET_SHARE,
    RUN_NOISE,
    expected_least,
)
from berth.predictor.families.program.predictor import WIDEST_USEFUL_FACTOR

_JITTER = 1e-9


@dataclass(frozen=True, slots=True)
class JointTimes:
    """Jointly Gaussian log times of one workload on several platforms."""

    platforms: tuple[str, ...]
    mean: Floats
    """[platforms] mean log seconds."""
    covariance: Floats
    """[platforms, platforms] covariance of log times; a row of zeros means that the time is
    known."""
    regret_share: float = 1.0
    """Observed log regret of held-out applications over the regret that their Gaussians
    predicted."""

    def __post_init__(self) -> None:
        n = len(self.platforms)
        if self.mean.shape != (n,) or self.covariance.shape != (n, n):
            raise ValueError(f"{n} platforms, {self.mean.shape} means, {self.covariance.shape}")

    def columns(self, platforms: Sequence[str]) -> list[int]:
        """Return the indices of the named platforms in this distribution.

        Raises UsageError for a platform that is not predicted.
        """
        if unknown := [name for name in platforms if name not in self.platforms]:
            raise UsageError(
                f"{unknown[0]!r} is not among the platforms that are predicted",
                hint=f"they are: {', '.join(self.platforms)}",
            )
        return [self.platforms.index(name) for name in platforms]

    def gain(self, columns: Sequence[int], noise: float = RUN_NOISE) -> Floats:
        """Return [platforms, probes]: the change of each mean log time per unit of error measured
        at each probe.

        ``columns`` are the probed platforms; an error is a measured minus a predicted log time.
        This is the regression of a Gaussian on some of its coordinates, observed with ``noise``
        (standard deviation in log time).
        """
        probed = list(columns)
        noises = (noise**2 + _JITTER) * np.eye(len(probed))
        seen = self.covariance[np.ix_(probed, probed)] + noises
        return np.asarray(np.linalg.solve(seen, self.covariance[probed]).T)

    def knowing(self, log_seconds: Mapping[str, float], noise: float = RUN_NOISE) -> JointTimes:
        """Return the joint distribution after runs on some platforms, whose times are then known.

        ``log_seconds``: measured log times by platform. Raises UsageError for a platform that is
        not predicted or a time that is not finite.
        """
        if not log_seconds:
            return self
        columns = self.columns(list(log_seconds))
        times = np.array(list(log_seconds.values()), dtype=np.float64)
        if not np.isfinite(times).all():
            name = list(log_seconds)[int(np.flatnonzero(~np.isfinite(times))[0])]
            raise UsageError(f"the time on {name} is not a positive number")
        gain = self.gain(columns, noise)
        mean = self.mean + gain @ (times - self.mean[columns])
        covariance = self.covariance - gain @ self.covariance[columns]
        covariance = (covariance + covariance.T) / 2
        mean[columns] = times
        covariance[columns, :] = covariance[:, columns] = 0.0
        return JointTimes(self.platforms, mean, covariance, self.regret_share)

    @property
    def deviation(self) -> Floats:
        """Return [platforms] standard deviations of log time."""
        return np.asarray(np.sqrt(np.maximum(np.diag(self.covariance), 0.0)))

    def draws(self, count: int, seed: int) -> Floats:
        """Return ``count`` random deviations of the log times from their means, [count, platforms].

        The draws are antithetic, so ``count`` must be even.
        """
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        half = np.random.default_rng(seed).standard_normal((count // 2, len(self.platforms)))
        return np.asarray(np.vstack([half, -half]) @ root.T)


_WIDEST = math.log(WIDEST_USEFUL_FACTOR)


def joint_of(predictions: Sequence[Prediction]) -> JointTimes:
    """Return the joint distribution of log times on the platforms of ``predictions``.

    Intervals wider than ``WIDEST_USEFUL_FACTOR`` count as that wide. Raises ValueError for two
    predictions on one platform.
    """
    names = tuple(p.platform for p in predictions)
    if len(set(names)) != len(names):
        raise ValueError("one prediction a platform")
    gpu = np.array([p.gpus > 0 for p in predictions])
    correlation = np.where(gpu[:, None] & gpu, GPU_CORRELATION, OTHER_CORRELATION)
    np.fill_diagonal(correlation, 1.0)
    spread = np.array(
        [
            0.0 if p.basis is Basis.MEASURED else min(p.runtime_s.log_width, _WIDEST) / NORMAL_90
            for p in predictions
        ]
    )
    mean = np.array([math.log(p.runtime_s.mid) for p in predictions])
    return JointTimes(names, mean, correlation * spread[:, None] * spread, REGRET_SHARE)


def updated(
    predictions: Sequence[Prediction], measured: Mapping[str, Interval]
) -> list[Prediction]:
    """Return the predictions corrected by runs of the same workload on some of their platforms.

    ``measured``: run times in seconds by platform. The measured platforms get these times; the
    other predictions move and narrow according to the correlation of the errors. Raises UsageError
    for a platform that is not predicted.
    """
    before = joint_of(predictions)
    after = before.knowing({name: math.log(time.mid) for name, time in measured.items()})
    moved_predictions = []
    for index, prediction in enumerate(predictions):
        if prediction.platform in measured:
            runtime = measured[prediction.platform]
            moved_predictions.append(_moved(prediction, runtime, Basis.MEASURED))
            continue
        left = before.deviation[index]
        if left == 0:
            moved_predictions.append(prediction)
            continue
        width = prediction.runtime_s.log_width * after.deviation[index] / left
        runtime = around(math.exp(after.mean[index]), width)
        moved_predictions.append(_moved(prediction, runtime, prediction.basis))
    return moved_predictions


def _moved(prediction: Prediction, runtime: Interval, basis: Basis) -> Prediction:
    """Return the prediction with another run time; speedup and energy change with it, memory does
    not."""
    reference_s = prediction.speedup.mid * prediction.runtime_s.mid
    energy = prediction.energy_j
    watts = 0.0 if energy is None else energy.mid / prediction.runtime_s.mid
    return replace(
        prediction,
        runtime_s=runtime,
        speedup=runtime.over(reference_s),
        energy_j=None if energy is None else runtime.scaled(watts),
        basis=basis,
        abstained=None if basis is Basis.MEASURED else prediction.abstained,
    )


DRAWS = 512
"""Number of random draws."""
MOST_IN_PAIRS = 16
"""Pairs are formed from only this many of the best single probes."""
WORTH_A_PROBE = 1.03
"""Expected regret (a ratio of times) up to which no further run is worthwhile."""


@dataclass(frozen=True, slots=True)
class AdvisedRun:
    """A proposed pilot run on one or more platforms, and the expected regret after it."""

    platforms: tuple[str, ...]
    regret: float
    """Expected time on the picked platform over the least time (geometric mean) after the runs; 1:
    no regret."""


@dataclass(frozen=True, slots=True)
class ProbeAdvice:
    """The pilot runs that would reduce the risk of choosing a slow platform most, and that risk
    now."""

    pick: str
    """Platform that would be picked without further runs."""
    regret: float
    """Expected regret without further runs, as a ratio of times."""
    one: AdvisedRun | None
    """The best single probe; None: every time is known already."""
    two: AdvisedRun | None
    """The best pair of probes; None: fewer than two times are unknown."""

    @property
    def worthwhile(self) -> bool:
        """Return whether another pilot run is proposed and the present expected regret exceeds
        ``WORTH_A_PROBE``."""
        return self.one is not None and self.regret > WORTH_A_PROBE


def expected_regret(joint: JointTimes, seed: int = 0) -> float:
    """Return the expected time on the platform of least mean log time over the least time
    (geometric mean)."""
    best = (joint.mean + joint.draws(DRAWS, seed)).min(axis=1).mean()
    return math.exp(joint.regret_share * max(0.0, float(joint.mean.min() - best)))


def advise(joint: JointTimes, *, noise: float = RUN_NOISE, seed: int = 0) -> ProbeAdvice:
    """Return the platform, and the pair of platforms, where a pilot run would reduce the expected
    regret most.

    Platforms whose times are known are never proposed. The result is deterministic.
    """
    open_columns = [c for c in range(len(joint.platforms)) if joint.covariance[c, c] > 0]
    deviation = joint.draws(DRAWS, seed)
    seen = deviation + noise * np.random.default_rng(seed + 1).standard_normal(deviation.shape)
    least = float((joint.mean + deviation).min(axis=1).mean())

    def after(columns: Sequence[int]) -> float:
        return joint.regret_share * max(0.0, _expected_pick(joint, columns, seen, noise) - least)

    exact = {c: _expected_pick_of_one(joint, c, noise) for c in open_columns}
    drawn = [_expected_pick(joint, [c], seen, noise) for c in open_columns]
    # Correct the draws' estimates by their mean error over the single probes, whose exact values
    # are known.
    off = sum(exact.values()) / len(exact) - sum(drawn) / len(drawn) if exact else 0.0
    singles = sorted((joint.regret_share * max(0.0, exact[c] - least - off), c) for c in exact)
    best_single = best_pair = None
    if singles:
        left, column = singles[0]
        best_single = AdvisedRun((joint.platforms[column],), math.exp(left))
    if len(singles) > 1:
        tried = sorted(c for _, c in singles[:MOST_IN_PAIRS])
        left, pair = min((after(p), p) for p in itertools.combinations(tried, 2))
        order = {c: rank for rank, (_, c) in enumerate(singles)}
        names = tuple(joint.platforms[c] for c in sorted(pair, key=order.__getitem__))
        best_pair = AdvisedRun(names, math.exp(left))
    pick = joint.platforms[int(joint.mean.argmin())]
    return ProbeAdvice(pick, expected_regret(joint, seed), best_single, best_pair)


def _expected_pick_of_one(joint: JointTimes, column: int, noise: float) -> float:
    """Return the exact expected log time of the platform chosen after a run on one platform."""
    surprise = math.sqrt(float(joint.covariance[column, column]) + noise**2)
    moved = joint.gain([column], noise)[:, 0] * surprise
    return expected_least(joint.mean.tolist(), moved.tolist())


def _expected_pick(joint: JointTimes, columns: Sequence[int], seen: Floats, noise: float) -> float:
    """Return the expected log time of the platform chosen after runs on ``columns``, averaged over
    random draws.

    ``seen``: drawn errors of measurements, [draws, platforms].
    """
    means = joint.mean + seen[:, list(columns)] @ joint.gain(columns, noise).T
    return float(means.min(axis=1).mean())
