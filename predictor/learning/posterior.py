"""A robust Gaussian posterior in log time: of a program's next job, and of a site's platforms.

A run's residual is the log of its time over the forecast without learning. Residuals of a program
share parts (``cells.Components``). Runs err by Student's t with few degrees of freedom, as scale
mixture (Lange, Little and Taylor, "Robust statistical modeling using the t distribution", 1989), so
that one odd run counts little; how far the forecast may be off at all is averaged over a grid of
scales by their likelihood, so that a forecast that claims too much is given up after few runs. Runs
of one cell are one unknown: the cost is cubic in cells, linear in runs.

What platforms do to every program is learnt from all programs of a site together. Each adds what
its runs say of the platforms beside its own offset, as a precision matrix and a vector. The sum,
with the prior, is the exact Gaussian posterior; what one program added can be taken out again, so
that its own runs are not counted twice for it. A platform that many programs find slower than
forecast gets a wider prior by its own data (a scale mixture, too): a bundle that is wrong by a
factor of three there is corrected within a few jobs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.learning.cells import (
    SHIPPED,
    Cell,
    Components,
    Place,
    Run,
    changes,
    covariance,
)

DEGREES = 3.0
"""Degrees of freedom of Student's t."""
SCALES = (1.0, 6.0, 36.0, 216.0, 1296.0)
"""Scales of the variance of a forecast's error: the last is 36 times as wide."""
_SCALES = np.array(SCALES)
NOISE_RUNS = 8.0
"""Runs that the prior of the noise between runs is worth."""
MOST_RUNS = 200
"""Runs of a program that are looked at: the last ones."""
_ROUNDS = 10
_SETTLED = 0.005
"""Change of weights between two rounds that ends the search."""
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
        """Return the mean at each cell; 0 on a platform that is not here."""
        return np.asarray(self._design(cells) @ self.mean)

    def between(self, left: Sequence[Cell], right: Sequence[Cell]) -> Floats:
        """Return the covariance of two lists of cells."""
        return np.asarray(self._design(left) @ self.covariance @ self._design(right).T)

    def _design(self, cells: Sequence[Cell]) -> Floats:
        design = np.zeros((len(cells), len(self.places)))
        for n, cell in enumerate(cells):
            key = (cell.place.platform, cell.place_epoch)
            if key in self.places:
                design[n, self.places.index(key)] = 1.0
        return design

    @property
    def platforms(self) -> frozenset[str]:
        """Return the names of the platforms that something is known of."""
        return frozenset(name for name, _ in self.places)


NO_EFFECTS = Effects()


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of the next run in each target cell."""

    mean: Floats
    """Log of its time over the forecast without learning."""
    deviation: Floats


@dataclass(frozen=True, slots=True)
class _Fits:
    """The posterior at each scale of the forecast's error; the first axis is the scale."""

    log_likelihood: Floats
    solved: Floats
    """[scales, cells] (K + R)^-1 (y - mean)."""
    noisy: Floats
    """[scales, cells, cells] K + R."""
    weights: Floats
    """[scales, runs] 1 is a usual one, near 0 an outlier."""
    filled: Floats
    """[scales, runs] residuals, with those cut off by a time limit filled in."""
    noise: Floats
    """[scales] variance of a run."""


class Posterior:
    """After the runs of one program. Deterministic; the order of the runs does not matter."""

    def __init__(
        self, runs: Sequence[Run], parts: Components = SHIPPED, effects: Effects = NO_EFFECTS
    ) -> None:
        """Fit ``runs`` of the program, in order of their ends; the last ``MOST_RUNS`` count."""
        self.runs = tuple(runs)[-MOST_RUNS:]
        self.parts = parts
        self.effects = effects
        self.cells = tuple(dict.fromkeys(run.cell for run in self.runs))
        index = {cell: n for n, cell in enumerate(self.cells)}
        self._of = np.array([index[run.cell] for run in self.runs], dtype=np.int64)
        self._seen = np.array([run.log_residual for run in self.runs])
        self._censored = np.array([run.censored for run in self.runs], dtype=bool)
        self._member = np.zeros((len(self.runs), len(self.cells)))
        """Runs x cells: 1 where the run is of the cell."""
        self._member[np.arange(len(self.runs)), self._of] = 1.0
        self._fits = self._fitted() if self.runs else None

    def under(self, effects: Effects) -> Posterior:
        """Return the posterior of the same runs where platforms have other effects. Which runs are
        odd, and how much runs vary, is taken from here: a fraction of the time of beginning anew.
        """
        posterior = copy(self)
        posterior.effects = effects
        if self._fits is not None:
            fits = self._fits
            prior = posterior._priors(posterior.cells, posterior.cells)
            posterior._fits = posterior._solved(prior, fits.weights, fits.filled, fits.noise)
        return posterior

    @property
    def shares(self) -> Floats:
        """Return the share of each scale, by its likelihood; a scale is the less likely the larger
        it is."""
        if self._fits is None:
            return np.zeros(0)
        logs = self._fits.log_likelihood - 0.5 * np.log(_SCALES)
        grown = np.exp(logs - logs.max())
        return np.asarray(grown / grown.sum())

    def expected(self, targets: Sequence[Cell]) -> Expected:
        """Return what is expected of the next run in each of ``targets``."""
        prior = self._priors(targets, targets)
        own = np.diagonal(prior, axis1=1, axis2=2)
        if self._fits is None:
            variance = own[0] + self.parts.run_noise**2
            return Expected(self.effects.at(targets), np.asarray(np.sqrt(variance)))
        fits, shares = self._fits, self.shares[:, None]
        across = self._priors(targets, self.cells)
        gain = np.linalg.solve(fits.noisy, across.transpose(0, 2, 1)).transpose(0, 2, 1)
        means = self.effects.at(targets) + np.einsum("stc,sc->st", across, fits.solved)
        left = np.maximum(own - (gain * across).sum(axis=2), 0.0) + fits.noise[:, None]
        mean = (shares * means).sum(axis=0)
        spread = (shares * (means - mean) ** 2).sum(axis=0)
        variance = (shares * left).sum(axis=0) + spread
        return Expected(mean, np.asarray(np.sqrt(variance)))

    def pulls(self, target: Cell) -> list[float]:
        """Return by how much (log time) each run moves the mean at ``target``; they add up to the
        move."""
        if self._fits is None:
            return []
        fits = self._fits
        across = self._priors([target], self.cells)
        gain = np.linalg.solve(fits.noisy, across.transpose(0, 2, 1))[:, :, 0]
        precision = fits.weights / fits.noise[:, None]
        part = precision / (precision @ self._member)[:, self._of]
        mean = self.effects.at(self.cells)[self._of]
        moves = self.shares[:, None] * gain[:, self._of] * part * (fits.filled - mean)
        return [float(move) for move in moves.sum(axis=0)]

    @property
    def weights(self) -> list[float]:
        """Return the weight of each run: 1 is a usual one, near 0 an outlier."""
        if self._fits is None:
            return []
        mixed = self.shares @ self._fits.weights
        return [float(weight) for weight in np.minimum(mixed, 1.0)]

    def information(self, places: Sequence[tuple[str, int]]) -> tuple[Floats, Floats]:
        """Return what the runs say of effects of platforms in their epochs, beside the program's
        own: precision, and precision times mean, to be added to those of other programs."""
        count = len(places)
        if self._fits is None:
            return np.zeros((count, count)), np.zeros(count)
        fits = self._fits
        design = np.zeros((len(self.cells), count))
        for n, cell in enumerate(self.cells):
            design[n, places.index((cell.place.platform, cell.place_epoch))] = 1.0
        bare = fits.noisy - self.effects.between(self.cells, self.cells)
        inverse = np.linalg.inv(bare)
        mixed = np.einsum("s,sij->ij", self.shares, inverse)
        seen = (fits.weights * fits.filled) @ self._member / (fits.weights @ self._member)
        shift = np.einsum("s,sij,sj->i", self.shares, inverse, seen)
        return np.asarray(design.T @ mixed @ design), np.asarray(design.T @ shift)

    def _priors(self, left: Sequence[Cell], right: Sequence[Cell]) -> Floats:
        """Return [scales, left, right] covariances of errors before any run."""
        parts = self.parts
        own = covariance(left, right, parts)
        rest = changes(left, right, parts) + self.effects.between(left, right)
        return np.asarray(_SCALES[:, None, None] * own + rest)

    def _fitted(self) -> _Fits:
        prior = self._priors(self.cells, self.cells)
        mean = self.effects.at(self.cells)
        noise = np.full(len(_SCALES), self.parts.run_noise**2)
        filled = np.tile(self._seen, (len(_SCALES), 1))
        # Begin with what each run is worth before the others are looked at.
        first = np.diagonal(prior, axis1=1, axis2=2)[:, self._of] + noise[:, None]
        weights: Floats = (DEGREES + 1) / (DEGREES + (filled - mean[self._of]) ** 2 / first)
        middle: Floats = np.tile(mean, (len(_SCALES), 1))
        usual, cut = self.parts.run_noise**2, self._censored
        live = np.arange(len(_SCALES))  # the scales whose weights have not settled
        for _ in range(_ROUNDS):
            now, residuals, deviation2 = weights[live], filled[live], noise[live][:, None]
            if cut.any():
                residuals, now = self._filled(middle[live], now, deviation2)
            middles, left = self._smoothed(prior[live], mean, now / deviation2, residuals)
            squared = (residuals - middles[:, self._of]) ** 2 + left[:, self._of]
            counted = np.where(cut, 0.0, now)
            now = np.where(cut, now, (DEGREES + 1) / (DEGREES + squared / deviation2))
            ended = (counted > 0).sum(axis=1)
            noise[live] = (NOISE_RUNS * usual + (counted * squared).sum(axis=1)) / (
                NOISE_RUNS + ended
            )
            moved = np.abs(now - weights[live]).max(axis=1)
            weights[live], filled[live], middle[live] = now, residuals, middles
            live = live[moved >= _SETTLED]
            if not len(live):
                break
        return self._solved(prior, weights, filled, noise)

    def _solved(self, prior: Floats, weights: Floats, filled: Floats, noise: Floats) -> _Fits:
        mean = self.effects.at(self.cells)
        precision = (weights / noise[:, None]) @ self._member
        seen = (weights / noise[:, None] * filled) @ self._member / precision
        noisy = prior + _diagonal(1 / precision + _JITTER)
        solved = np.linalg.solve(noisy, (seen - mean)[:, :, None])[:, :, 0]
        within = (weights / noise[:, None] * (filled - seen[:, self._of]) ** 2).sum(axis=1)
        squares = within + ((seen - mean) * solved).sum(axis=1)
        likelihood = self._log_likelihood(noisy, squares, weights, noise)
        return _Fits(likelihood, np.asarray(solved), noisy, weights, filled, noise)

    def _smoothed(
        self, prior: Floats, mean: Floats, precision: Floats, filled: Floats
    ) -> tuple[Floats, Floats]:
        """Return the means and variances of cells after the runs, each of which has a precision."""
        total = precision @ self._member
        seen = (precision * filled) @ self._member / total
        noisy = prior + _diagonal(1 / total + _JITTER)
        solved = np.linalg.solve(noisy, np.concatenate([(seen - mean)[:, :, None], prior], axis=2))
        middle = mean + np.einsum("sij,sj->si", prior, solved[:, :, 0])
        spread = np.einsum("sij,sji->si", prior, solved[:, :, 1:])
        own = np.diagonal(prior, axis1=1, axis2=2)
        return np.asarray(middle), np.maximum(own - spread, 0.0)

    def _filled(self, middle: Floats, weights: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Fill in runs that were cut off by a Newton step on their likelihood.

        One cut off far below what is expected says nothing; far above, that it took longer.
        ``noise``: [scales, 1].
        """
        deviation = np.sqrt(noise)
        at = middle[:, self._of]
        z = np.clip((self._seen - at) / deviation, -8.0, 8.0)
        beyond = np.array([0.5 * math.erfc(value / math.sqrt(2)) for value in z.ravel()])
        hazard = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) / beyond.reshape(z.shape)
        bend = np.clip(hazard * (hazard - z), _LEAST_BEND, 1.0)
        target = np.maximum(at + deviation * hazard / bend, self._seen)
        cut = self._censored
        target = np.where(bend > _LEAST_BEND, target, at)
        return np.where(cut, target, self._seen), np.where(cut, bend, weights)

    def _log_likelihood(
        self, noisy: Floats, squares: Floats, weights: Floats, noise: Floats
    ) -> Floats:
        """Return the log likelihood of the runs with these weights, and of the weights under
        Student's t.

        ``squares``: of runs in their cells and of cells, each over its variance.
        """
        each = weights / noise[:, None]
        _, size = np.linalg.slogdet(noisy)
        runs = -np.log(each).sum(axis=1) + np.log(each @ self._member).sum(axis=1)
        half = DEGREES / 2
        whole = weights[:, ~self._censored]
        mixture = (half * np.log(whole) - half * whole + half).sum(axis=1)
        grown = noise / self.parts.run_noise**2
        usual = NOISE_RUNS * (np.log(grown) + 1 / grown - 1)
        return np.asarray(mixture - 0.5 * (squares + size + runs + usual))


def _diagonal(values: Floats) -> Floats:
    """Return [scales, n] as [scales, n, n] matrices."""
    return np.asarray(values[:, :, None] * np.eye(values.shape[1]))


_EFFECT_DEGREES = 2.0
_EFFECT_ROUNDS = 10
_EFFECT_SETTLED = 1e-3
"""Change of the log of scales between two rounds that ends the search."""
_WIDEST = 100.0
"""Largest factor on the variance of an effect."""


@dataclass(frozen=True, slots=True)
class Information:
    """What one program says of the platforms (``Posterior.information``)."""

    precision: Floats
    shift: Floats


def effects_of(
    places: Sequence[tuple[Place, int]],
    programs: Sequence[Information],
    parts: Components = SHIPPED,
) -> Effects:
    """Return the posterior over ``places`` (with their epochs) from programs; pass all but one for
    it."""
    if not places:
        return Effects()
    kinds = sorted({place.kind for place, _ in places})
    names = sorted({place.platform for place, _ in places})
    changed = [n for n, (place, _) in enumerate(places) if _epochs(places, place) > 1]
    count = len(kinds) + len(names)
    design = np.zeros((len(places), count + len(changed)))
    for n, (place, _) in enumerate(places):
        design[n, kinds.index(place.kind)] = 1.0
        design[n, len(kinds) + names.index(place.platform)] = 1.0
    for column, n in enumerate(changed):
        design[n, count + column] = 1.0
    deviation = np.array([parts.site_kind] * len(kinds) + [parts.site_platform] * len(names)
                         + [parts.change] * len(changed))  # fmt: skip
    zero = np.zeros((len(places), len(places)))
    precision = design.T @ sum((program.precision for program in programs), zero) @ design
    shift = design.T @ sum((program.shift for program in programs), np.zeros(len(places)))
    scale = np.ones(len(deviation))
    mean, covariance = np.zeros(len(deviation)), np.diag(deviation**2)
    for _ in range(_EFFECT_ROUNDS):
        covariance = np.linalg.inv(np.diag(1 / (scale * deviation**2)) + precision)
        mean = covariance @ shift
        second = (mean**2 + np.diag(covariance)) / deviation**2
        # An EM step of the scale mixture; the size of changes is fixed.
        before = scale
        scale = np.clip((_EFFECT_DEGREES + second) / (_EFFECT_DEGREES + 1.0), 0.5, _WIDEST)
        scale[count:] = 1.0
        if np.abs(np.log(scale / before)).max() < _EFFECT_SETTLED:
            break
    keys = tuple((place.platform, epoch) for place, epoch in places)
    spread = design @ covariance @ design.T
    return Effects(keys, design @ mean, (spread + spread.T) / 2)


def _epochs(places: Sequence[tuple[Place, int]], place: Place) -> int:
    return sum(other.platform == place.platform for other, _ in places)
