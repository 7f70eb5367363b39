"""Robust Bayesian correction of the run-time forecasts of one program by its finished jobs.

A run's residual is the log of its time over the forecast without learning. Residuals of runs of a
program are correlated (``cells.Components``). The noise of runs follows Student's t with few
degrees of freedom, as a scale mixture (Lange, Little and Taylor, "Robust statistical modeling using
the t distribution", 1989), so that one outlier has little weight. The overall scale of the
forecast's error is averaged over a grid by likelihood, so that an overconfident forecast is
overruled after few runs. Runs of one cell (platform, size, resources) share one unknown: the cost
is cubic in cells and linear in runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.learning.cells import (
    SHIPPED,
    Cell,
    Components,
    RunResidual,
    changes,
    covariance,
    job_covariance,
)
from berth.predictor.learning.effects import NO_EFFECTS, Effects, Information

DEGREES = 3.0
"""Degrees of freedom of Student's t distribution of a run's noise."""
SCALES = (1.0, 6.0, 36.0, 216.0, 1296.0)
"""Factors on the variance of a forecast's error; the last is a standard deviation 36 times as
wide."""
_SCALES = np.array(SCALES)
NOISE_RUNS = 8.0
"""Number of runs that the prior of the noise variance counts as."""
MOST_RUNS = 200
"""Largest number of runs of a program that are used: the last ones."""
_ROUNDS = 10
_SETTLED = 0.005
"""Change of weights between two iterations below which the iteration ends."""
_JITTER = 1e-9
_LEAST_BEND = 1e-6


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected log of the next run's time over the forecast, with its standard deviation, for
    target cells."""

    mean: Floats
    """[targets] log of the run's time over the forecast without learning."""
    deviation: Floats
    """[targets] standard deviation, run-to-run noise included."""


@dataclass(frozen=True, slots=True)
class _Fits:
    """The fitted posterior for each assumed scale of the forecast's error (first axis of all
    arrays)."""

    log_likelihood: Floats
    """[scales] log likelihood of the runs."""
    solved: Floats
    """[scales, cells] (K + R)^-1 (y - mean), K: prior covariance, R: noise, y: mean residuals."""
    noisy: Floats
    """[scales, cells, cells] K + R."""
    weights: Floats
    """[scales, runs] weight of a run: 1 for a usual run, near 0 for an outlier."""
    filled: Floats
    """[scales, runs] log residuals; those of runs that a time limit cut off are estimates."""
    noise: Floats
    """[scales] noise variance of a run, without the rounding of its time."""


class Posterior:
    """Posterior of a program's log times over the forecast, given its finished runs.

    Deterministic; the order of the runs does not matter.
    """

    def __init__(
        self,
        runs: Sequence[RunResidual],
        parts: Components = SHIPPED,
        effects: Effects = NO_EFFECTS,
    ) -> None:
        """Fit the ``runs`` of a program, given in order of their ends; only the last ``MOST_RUNS``
        are used."""
        self.runs = tuple(runs)[-MOST_RUNS:]
        self.parts = parts
        self.effects = effects
        self.cells = tuple(dict.fromkeys(run.cell for run in self.runs))
        index = {cell: n for n, cell in enumerate(self.cells)}
        self._of = np.array([index[run.cell] for run in self.runs], dtype=np.int64)
        self._seen = np.array([run.log_residual for run in self.runs])
        self._censored = np.array([run.censored for run in self.runs], dtype=bool)
        self._clock = np.array([run.clock_deviation for run in self.runs]) ** 2
        """[runs] variance of log time by which the accounting rounded it."""
        self._member = np.zeros((len(self.runs), len(self.cells)))
        """[runs, cells] 1 where the run is of the cell."""
        self._member[np.arange(len(self.runs)), self._of] = 1.0
        self._fits = self._fitted() if self.runs else None

    def under(self, effects: Effects) -> Posterior:
        """Return the posterior of the same runs with other platform offsets.

        Outlier weights and noise are taken from this posterior, which is much faster than a new
        fit.
        """
        posterior = copy(self)
        posterior.effects = effects
        if self._fits is not None:
            fits = self._fits
            prior = posterior._priors(posterior.cells, posterior.cells)
            posterior._fits = posterior._solved(prior, fits.weights, fits.filled, fits.noise)
        return posterior

    @property
    def runs_elsewhere(self) -> int:
        """Return the number of runs where the forecast's time was predicted and not measured: only
        these tell how good forecasts of the program are."""
        return sum(not run.cell.is_measured for run in self.runs)

    @property
    def shares(self) -> Floats:
        """Return the posterior probability of each assumed scale of the forecast's error, [scales].

        The prior falls with the scale; empty without runs.
        """
        if self._fits is None:
            return np.zeros(0)
        logs = self._fits.log_likelihood - 0.5 * np.log(_SCALES)
        grown = np.exp(logs - logs.max())
        return np.asarray(grown / grown.sum())

    def expected(self, targets: Sequence[Cell]) -> Expected:
        """Return the expected log time over the forecast, and its standard deviation, of a run in
        each of ``targets``."""
        prior = self._priors(targets, targets)
        own = np.diagonal(prior, axis1=1, axis2=2)
        if self._fits is None:
            variance = own[0] + self.parts.run_noise**2
            return Expected(self.effects.at(targets), np.asarray(np.sqrt(variance)))
        fits, shares = self._fits, self.shares[:, None]
        across, gain, means = self._told_of(targets, fits)
        left = np.maximum(own - (gain * across).sum(axis=2), 0.0) + fits.noise[:, None]
        mean = (shares * means).sum(axis=0)
        spread = (shares * (means - mean) ** 2).sum(axis=0)
        variance = (shares * left).sum(axis=0) + spread
        return Expected(mean, np.asarray(np.sqrt(variance)))

    def covariance_of(self, targets: Sequence[Cell]) -> Floats:
        """Return the [targets, targets] covariance of the expected log times over the forecast,
        without run-to-run noise."""
        prior = self._priors(targets, targets)
        if self._fits is None:
            return np.asarray(prior[0])
        shares = self.shares
        across, gain, means = self._told_of(targets, self._fits)
        apart = means - shares @ means
        left = prior - np.einsum("stc,suc->stu", gain, across)
        left += np.einsum("st,su->stu", apart, apart)
        return np.asarray(np.einsum("s,stu->tu", shares, left))

    def _told_of(self, targets: Sequence[Cell], fits: _Fits) -> tuple[Floats, Floats, Floats]:
        """Return what the runs say about ``targets``: their prior covariance with the cells that
        ran and the regression on these, both [scales, targets, cells], and the expected log times,
        [scales, targets]."""
        across = self._priors(targets, self.cells)
        gain = np.linalg.solve(fits.noisy, across.transpose(0, 2, 1)).transpose(0, 2, 1)
        means = self.effects.at(targets) + np.einsum("stc,sc->st", across, fits.solved)
        return across, np.asarray(gain), np.asarray(means)

    def pulls(self, target: Cell) -> list[float]:
        """Return by how much, in log time, each run moves the expected time in the cell ``target``.

        The sum is the whole move from the prior mean; empty without runs.
        """
        if self._fits is None:
            return []
        fits = self._fits
        across = self._priors([target], self.cells)
        gain = np.linalg.solve(fits.noisy, across.transpose(0, 2, 1))[:, :, 0]
        precision = fits.weights / self._each_noise(fits.noise)
        part = precision / (precision @ self._member)[:, self._of]
        mean = self.effects.at(self.cells)[self._of]
        moves = self.shares[:, None] * gain[:, self._of] * part * (fits.filled - mean)
        return [float(move) for move in moves.sum(axis=0)]

    @property
    def weights(self) -> list[float]:
        """Return the weight of each run in the fit: 1 for a usual run, near 0 for an outlier."""
        if self._fits is None:
            return []
        mixed = self.shares @ self._fits.weights
        return [float(weight) for weight in np.minimum(mixed, 1.0)]

    def information(self, places: Sequence[tuple[str, int]]) -> Information:
        """Return what the runs say about platform offsets.

        ``places``: (platform, epoch). The program's own offset is marginalised out; results of
        several programs are added up.
        """
        count = len(places)
        if self._fits is None:
            return Information(np.zeros((count, count)), np.zeros(count))
        fits = self._fits
        design = np.zeros((len(self.cells), count))
        for n, cell in enumerate(self.cells):
            design[n, places.index((cell.place.platform, cell.place_epoch))] = 1.0
        bare = fits.noisy - self.effects.between(self.cells, self.cells)
        inverse = np.linalg.inv(bare)
        mixed = np.einsum("s,sij->ij", self.shares, inverse)
        precision = fits.weights / self._each_noise(fits.noise)
        seen = (precision * fits.filled) @ self._member / (precision @ self._member)
        shift = np.einsum("s,sij,sj->i", self.shares, inverse, seen)
        return Information(np.asarray(design.T @ mixed @ design), np.asarray(design.T @ shift))

    def _priors(self, left: Sequence[Cell], right: Sequence[Cell]) -> Floats:
        """Return the [scales, left, right] covariance of forecast errors before any run."""
        parts = self.parts
        of_forecast, of_jobs = covariance(left, right, parts), job_covariance(left, right)
        rest = changes(left, right, parts) + self.effects.between(left, right)
        scales = _SCALES[:, None, None]
        # Runs where the time was measured tell how the job differs from the pilot run; whether the
        # forecasts for other platforms are as good as they claim, only runs there tell.
        own_scales = scales if self.runs_elsewhere else 1.0
        return np.asarray(own_scales * of_forecast + scales * of_jobs + rest)

    def _fitted(self) -> _Fits:
        """Return the posterior after iterating outlier weights, noise and means until they
        settle."""
        prior = self._priors(self.cells, self.cells)
        mean = self.effects.at(self.cells)
        noise = np.full(len(_SCALES), self.parts.run_noise**2)
        filled = np.tile(self._seen, (len(_SCALES), 1))
        # Start from the weight of each run under the prior alone.
        first = np.diagonal(prior, axis1=1, axis2=2)[:, self._of] + self._each_noise(noise)
        weights: Floats = (DEGREES + 1) / (DEGREES + (filled - mean[self._of]) ** 2 / first)
        middle: Floats = np.tile(mean, (len(_SCALES), 1))
        usual, cut = self.parts.run_noise**2, self._censored
        live = np.arange(len(_SCALES))  # the scales whose weights have not settled
        for _ in range(_ROUNDS):
            now, residuals = weights[live], filled[live]
            deviation2 = self._each_noise(noise[live])
            if cut.any():
                residuals, now = self._filled(middle[live], now, deviation2)
            middles, left = self._smoothed(prior[live], mean, now / deviation2, residuals)
            squared = (residuals - middles[:, self._of]) ** 2 + left[:, self._of]
            counted = np.where(cut, 0.0, now)
            now = np.where(cut, now, (DEGREES + 1) / (DEGREES + squared / deviation2))
            ended = (counted > 0).sum(axis=1)
            without_clock = squared * noise[live][:, None] / deviation2
            noise[live] = (NOISE_RUNS * usual + (counted * without_clock).sum(axis=1)) / (
                NOISE_RUNS + ended
            )
            moved = np.abs(now - weights[live]).max(axis=1)
            weights[live], filled[live], middle[live] = now, residuals, middles
            live = live[moved >= _SETTLED]
            if not len(live):
                break
        return self._solved(prior, weights, filled, noise)

    def _each_noise(self, noise: Floats) -> Floats:
        """Return the [scales, runs] noise variance of each run: ``noise`` [scales] and the rounding
        of its time."""
        return np.asarray(noise[:, None] + self._clock)

    def _solved(self, prior: Floats, weights: Floats, filled: Floats, noise: Floats) -> _Fits:
        """Return the posterior for given outlier weights, residuals and noise variances."""
        mean = self.effects.at(self.cells)
        each = weights / self._each_noise(noise)
        precision = each @ self._member
        seen = (each * filled) @ self._member / precision
        noisy = prior + _diagonal(1 / precision + _JITTER)
        solved = np.linalg.solve(noisy, (seen - mean)[:, :, None])[:, :, 0]
        within = (each * (filled - seen[:, self._of]) ** 2).sum(axis=1)
        squares = within + ((seen - mean) * solved).sum(axis=1)
        likelihood = self._log_likelihood(noisy, squares, weights, noise)
        return _Fits(likelihood, np.asarray(solved), noisy, weights, filled, noise)

    def _smoothed(
        self, prior: Floats, mean: Floats, precision: Floats, filled: Floats
    ) -> tuple[Floats, Floats]:
        """Return the posterior means and variances of cells, given the precision of each run."""
        total = precision @ self._member
        seen = (precision * filled) @ self._member / total
        noisy = prior + _diagonal(1 / total + _JITTER)
        solved = np.linalg.solve(noisy, np.concatenate([(seen - mean)[:, :, None], prior], axis=2))
        middle = mean + np.einsum("sij,sj->si", prior, solved[:, :, 0])
        spread = np.einsum("sij,sji->si", prior, solved[:, :, 1:])
        own = np.diagonal(prior, axis1=1, axis2=2)
        return np.asarray(middle), np.maximum(own - spread, 0.0)

    def _filled(self, middle: Floats, weights: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Return residuals and weights of all runs, estimated for runs that their time limit cut
        off.

        One Newton step on the likelihood. A run cut off far below its expected time carries no
        information; a run cut off far above says that it took longer. ``noise``: [scales, runs]
        variances.
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
        """Return the log likelihood [scales] of the runs and of their weights under Student's t.

        ``squares``: sum of squared residuals over their variances, of runs within cells and of
        cells.
        """
        each = weights / self._each_noise(noise)
        _, size = np.linalg.slogdet(noisy)
        runs = -np.log(each).sum(axis=1) + np.log(each @ self._member).sum(axis=1)
        half = DEGREES / 2
        whole = weights[:, ~self._censored]
        mixture = (half * np.log(whole) - half * whole + half).sum(axis=1)
        grown = noise / self.parts.run_noise**2
        usual = NOISE_RUNS * (np.log(grown) + 1 / grown - 1)
        return np.asarray(mixture - 0.5 * (squares + size + runs + usual))


def _diagonal(values: Floats) -> Floats:
    """Return an array [scales, n] as diagonal matrices [scales, n, n]."""
    return np.asarray(values[:, :, None] * np.eye(values.shape[1]))
