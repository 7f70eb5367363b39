"""What a program's finished jobs say of its next one: a robust Gaussian posterior in log time.

A run's residual is the log of its time over the forecast without learning. Residuals of a program
share parts (``components``). Runs err by Student's t with few degrees of freedom, as scale mixture
(Lange, Little and Taylor, "Robust statistical modeling using the t distribution", 1989), so that
one odd run counts little; how far the forecast may be off at all is averaged over a grid of scales
by their likelihood, so that a forecast that claims too much is given up after few runs. Runs of
one cell are one unknown: the cost is cubic in cells, linear in runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.learning.cells import Cell, Run, changes, covariance
from berth.predictor.learning.components import SHIPPED, Components

DEGREES = 3.0
"""Of freedom of Student's t."""
SCALES = (1.0, 6.0, 36.0, 216.0, 1296.0)
"""On the variance of a forecast's error: the last is 36 times as wide."""
NOISE_RUNS = 8.0
"""As many runs the prior of the noise between runs is worth."""
MOST_RUNS = 200
"""Of a program that are looked at: the last ones."""
_ROUNDS = 10
_SETTLED = 0.005
"""Of weights between two rounds."""
_JITTER = 1e-9
_LEAST_BEND = 1e-6


@dataclass(frozen=True, slots=True)
class Effects:
    """What a site's platforms do to every program: a Gaussian over platforms."""

    places: tuple[tuple[str, int], ...] = ()
    """Platforms and their epochs."""
    mean: Floats = field(default_factory=lambda: np.zeros(0))
    covariance: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def at(self, cells: Sequence[Cell]) -> Floats:
        """The mean at each cell; 0 on a platform that is not here."""
        return np.asarray(self._design(cells) @ self.mean)

    def between(self, left: Sequence[Cell], right: Sequence[Cell]) -> Floats:
        """The covariance of two lists of cells."""
        return np.asarray(self._design(left) @ self.covariance @ self._design(right).T)

    def _design(self, cells: Sequence[Cell]) -> Floats:
        found = np.zeros((len(cells), len(self.places)))
        for n, cell in enumerate(cells):
            key = (cell.place.platform, cell.place_epoch)
            if key in self.places:
                found[n, self.places.index(key)] = 1.0
        return found

    @property
    def platforms(self) -> frozenset[str]:
        """Names of those that something is known of."""
        return frozenset(name for name, _ in self.places)


NO_EFFECTS = Effects()


@dataclass(frozen=True, slots=True)
class Expected:
    """Of the next run in each target cell."""

    mean: Floats
    """Log of its time over the forecast without learning."""
    deviation: Floats


@dataclass(frozen=True, slots=True)
class _Fit:
    """At one scale of the forecast's error."""

    scale: float
    log_likelihood: float
    solved: Floats
    """Cells: (K + R)^-1 (y - mean)."""
    noisy: Floats
    """Cells x cells: K + R."""
    weights: Floats
    """Of runs: 1 is a usual one, near 0 an outlier."""
    filled: Floats
    """Of runs: residuals, with those cut off by a time limit filled in."""
    noise: float
    """Variance of a run."""


class Posterior:
    """After the runs of one program. Deterministic; the order of the runs does not matter."""

    def __init__(
        self, runs: Sequence[Run], parts: Components = SHIPPED, effects: Effects = NO_EFFECTS
    ) -> None:
        """``runs``: the program's, in order of their ends; the last ``MOST_RUNS`` count."""
        self.runs = tuple(runs)[-MOST_RUNS:]
        self.parts = parts
        self.effects = effects
        self.cells = tuple(dict.fromkeys(run.cell for run in self.runs))
        index = {cell: n for n, cell in enumerate(self.cells)}
        self._of = np.array([index[run.cell] for run in self.runs], dtype=np.int64)
        self._seen = np.array([run.log_residual for run in self.runs])
        self._censored = np.array([run.censored for run in self.runs], dtype=bool)
        self._fits = [self._fit(scale) for scale in SCALES] if self.runs else []

    @property
    def shares(self) -> Floats:
        """Of each scale, by its likelihood; a scale is the less likely the larger it is."""
        logs = np.array([f.log_likelihood - 0.5 * math.log(f.scale) for f in self._fits])
        grown = np.exp(logs - logs.max())
        return np.asarray(grown / grown.sum())

    def expected(self, targets: Sequence[Cell]) -> Expected:
        """Of the next run in each of ``targets``."""
        if not self._fits:
            variance = np.diag(self._prior(targets, targets, 1.0))
            variance = variance + self.parts.run_noise**2
            return Expected(self.effects.at(targets), np.asarray(np.sqrt(variance)))
        means, variances = [], []
        for fit in self._fits:
            across = self._prior(targets, self.cells, fit.scale)
            own = np.array([self._prior([t], [t], fit.scale)[0, 0] for t in targets])
            gain = np.linalg.solve(fit.noisy, across.T).T
            means.append(self.effects.at(targets) + across @ fit.solved)
            variances.append(np.maximum(own - (gain * across).sum(axis=1), 0.0) + fit.noise)
        shares = self.shares[:, None]
        mean = (shares * np.array(means)).sum(axis=0)
        spread = (shares * (np.array(means) - mean) ** 2).sum(axis=0)
        variance = (shares * np.array(variances)).sum(axis=0) + spread
        return Expected(mean, np.asarray(np.sqrt(variance)))

    def pulls(self, target: Cell) -> list[float]:
        """By how much (log time) each run moves the mean at ``target``; they add up to the move."""
        found = np.zeros(len(self.runs))
        for share, fit in zip(self.shares, self._fits, strict=True):
            across = self._prior([target], self.cells, fit.scale)
            gain = np.linalg.solve(fit.noisy, across.T).T[0]
            precision = fit.weights / fit.noise
            part = precision / np.bincount(self._of, precision, len(self.cells))[self._of]
            mean = self.effects.at(self.cells)[self._of]
            found += share * gain[self._of] * part * (fit.filled - mean)
        return [float(one) for one in found]

    @property
    def weights(self) -> list[float]:
        """Of each run: 1 is a usual one, near 0 an outlier."""
        mixed = np.zeros(len(self.runs))
        for share, fit in zip(self.shares, self._fits, strict=True):
            mixed += share * fit.weights
        return [float(one) for one in np.minimum(mixed, 1.0)]

    def information(self, places: Sequence[tuple[str, int]]) -> tuple[Floats, Floats]:
        """What the runs say of effects of platforms in their epochs, beside the program's own:
        precision, and precision times mean, to be added to those of other programs."""
        design = np.zeros((len(self.cells), len(places)))
        for n, cell in enumerate(self.cells):
            design[n, places.index((cell.place.platform, cell.place_epoch))] = 1.0
        precision, shift = np.zeros((len(places), len(places))), np.zeros(len(places))
        for share, fit in zip(self.shares, self._fits, strict=True):
            bare = fit.noisy - self.effects.between(self.cells, self.cells)
            inverse = np.linalg.inv(bare)
            sums = np.bincount(self._of, fit.weights * fit.filled, len(self.cells))
            seen = sums / np.bincount(self._of, fit.weights, len(self.cells))
            precision += share * design.T @ inverse @ design
            shift += share * design.T @ inverse @ seen
        return precision, shift

    def _prior(self, left: Sequence[Cell], right: Sequence[Cell], scale: float) -> Floats:
        parts = self.parts
        return np.asarray(
            scale * covariance(left, right, parts)
            + changes(left, right, parts)
            + self.effects.between(left, right)
        )

    def _fit(self, scale: float) -> _Fit:
        prior = self._prior(self.cells, self.cells, scale)
        mean = self.effects.at(self.cells)
        count = len(self.cells)
        noise = self.parts.run_noise**2
        filled = self._seen.copy()
        # Begin with what each run is worth before the others are looked at.
        first = np.diag(prior)[self._of] + noise
        weights: Floats = (DEGREES + 1) / (DEGREES + (filled - mean[self._of]) ** 2 / first)
        middle: Floats = mean
        for _ in range(_ROUNDS):
            before = weights
            if self._censored.any():
                filled, weights = self._filled(middle, weights, noise)
            middle, left = self._smoothed(prior, mean, weights / noise, filled)
            squared = (filled - middle[self._of]) ** 2 + left[self._of]
            counted = np.where(self._censored, 0.0, weights)
            weights = np.where(self._censored, weights, (DEGREES + 1) / (DEGREES + squared / noise))
            usual = self.parts.run_noise**2
            ended = (counted > 0).sum()
            noise = float((NOISE_RUNS * usual + counted @ squared) / (NOISE_RUNS + ended))
            if np.abs(weights - before).max() < _SETTLED:
                break
        precision = np.bincount(self._of, weights / noise, count)
        seen = np.bincount(self._of, weights / noise * filled, count) / precision
        noisy = prior + np.diag(1 / precision + _JITTER)
        return _Fit(
            scale,
            self._log_likelihood(prior, mean, weights, noise, filled),
            np.asarray(np.linalg.solve(noisy, seen - mean), dtype=np.float64),
            noisy,
            weights,
            filled,
            noise,
        )

    def _smoothed(
        self, prior: Floats, mean: Floats, precision: Floats, filled: Floats
    ) -> tuple[Floats, Floats]:
        """Means and variances of cells after the runs, each of which has a precision."""
        count = len(self.cells)
        total = np.bincount(self._of, precision, count)
        seen = np.bincount(self._of, precision * filled, count) / total
        noisy = prior + np.diag(1 / total + _JITTER)
        middle = mean + prior @ np.linalg.solve(noisy, seen - mean)
        spread = (prior * np.linalg.solve(noisy, prior).T).sum(axis=1)
        return np.asarray(middle), np.maximum(np.diag(prior) - spread, 0.0)

    def _filled(self, middle: Floats, weights: Floats, noise: float) -> tuple[Floats, Floats]:
        """Runs that were cut off as runs that were not: a Newton step on their likelihood.

        One cut off far below what is expected says nothing; far above, that it took longer.
        """
        deviation = math.sqrt(noise)
        at = middle[self._of]
        z = np.clip((self._seen - at) / deviation, -8.0, 8.0)
        beyond = np.array([0.5 * math.erfc(one / math.sqrt(2)) for one in z])
        hazard = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) / beyond
        bend = np.clip(hazard * (hazard - z), _LEAST_BEND, 1.0)
        target = np.maximum(at + deviation * hazard / bend, self._seen)
        cut = self._censored
        target = np.where(bend > _LEAST_BEND, target, at)
        return np.where(cut, target, self._seen), np.where(cut, bend, weights)

    def _log_likelihood(
        self, prior: Floats, mean: Floats, weights: Floats, noise: float, filled: Floats
    ) -> float:
        """Of the runs with these weights, and of the weights themselves under Student's t."""
        count = len(self.cells)
        precision = np.bincount(self._of, weights / noise, count)
        seen = np.bincount(self._of, weights / noise * filled, count) / precision
        within = (weights / noise * (filled - seen[self._of]) ** 2).sum()
        noisy = prior + np.diag(1 / precision + _JITTER)
        _, size = np.linalg.slogdet(noisy)
        quadratic = (seen - mean) @ np.linalg.solve(noisy, seen - mean)
        runs = np.log(noise / weights).sum() + np.log(precision).sum()
        half = DEGREES / 2
        whole = weights[~self._censored]
        mixture = (half * np.log(whole) - half * whole + half).sum()
        grown = noise / self.parts.run_noise**2
        usual = NOISE_RUNS * (math.log(grown) + 1 / grown - 1)
        return float(mixture - 0.5 * (within + quadratic + size + runs + usual))
