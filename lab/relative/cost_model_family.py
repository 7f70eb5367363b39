"""Training of the shipped cost model: positive costs, Gaussian processes on the residuals, and a
trend.

All constants are fixed and none is tuned on the training rows; where several values are reasonable
their predictions are averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize

from berth.predictor.core.arrays import Floats, matern32
from berth.predictor.families.relative.rows import Rows
from lab.relative.cost_model import ABSENT, CostModel, Costs, Gaussian, Group
from lab.relative.family import check_rows
from lab.relative.views import LAUNCH, SERIAL, ViewedRows, fitting

_LEAST_SCALE = 1e-6


@dataclass(frozen=True, slots=True)
class CovarianceTerms:
    """Standard deviations (log time) of the terms of a covariance; nearness is Matern 3/2."""

    constant: float
    """Standard deviation of an offset common to all rows."""
    linear: float
    """Standard deviation of a linear trend over all features together."""
    local: float
    """Standard deviation of the term that falls off with the distance of features."""
    length: float
    """Length scale of the Matern function, in units of scaled features."""
    shared: float
    """Standard deviation of an offset of the application, and of another one of the kernel."""
    everywhere: float
    """Share of the application's and kernel's offset that does not fall off with distance."""
    noise: float
    """Standard deviation of the measurement noise."""


@dataclass(frozen=True, slots=True)
class _Points:
    """Inner products and distances of all pairs of training rows."""

    product: Floats
    """[rows, rows] inner products of features over the number of features."""
    distance: Floats
    """[rows, rows] Euclidean distances of scaled features."""
    common: Floats
    """[rows, rows] 0, 1 (same application) or 2 (same kernel too)."""

    def noisy(self, kernel: CovarianceTerms) -> Floats:
        """Return the covariance [rows, rows] of measured values at the training rows, noise
        included."""
        near = matern32(self.distance / kernel.length)
        own = kernel.shared**2 * (kernel.everywhere + (1 - kernel.everywhere) * near)
        covariance = kernel.constant**2 + kernel.linear**2 * self.product + kernel.local**2 * near
        return np.asarray(covariance + self.common * own + kernel.noise**2 * np.eye(len(near)))


def fit_gaussian(
    features: Floats,
    targets: Floats,
    groups: Sequence[Group],
    kernels: Sequence[CovarianceTerms],
    weights: Floats,
    *,
    scaled: bool,
    standard: bool = False,
) -> Gaussian:
    """Return the mean function of Gaussian processes fitted to ``targets``, averaged over
    ``kernels``.

    ``targets``: rows x outputs, NaN where unknown. ``scaled``: features are divided by their
    weighted standard deviation; ``standard``: targets are centred and divided likewise. An output
    without targets is predicted by its offset.
    """
    centre, deviation = _moments(features, weights)
    scale = np.where(deviation > _LEAST_SCALE, deviation, 1.0) if scaled else np.ones_like(centre)
    offset, amplitude = np.zeros(targets.shape[1]), np.ones(targets.shape[1])
    if standard:
        offset, amplitude = _moments(targets, weights)
        amplitude = np.where(amplitude > _LEAST_SCALE, amplitude, 1.0)
    points = np.nan_to_num((features - centre) / scale, nan=0.0)
    pairs = _pairs(points, groups)
    wanted = (targets - offset) / amplitude
    solved = np.stack([_solve(pairs.noisy(kernel), wanted) for kernel in kernels]) / len(kernels)
    lengths = sorted({kernel.length for kernel in kernels})
    rows, outputs = wanted.shape
    constant, linear = np.zeros(outputs), np.zeros((points.shape[1], outputs))
    near, own_near = np.zeros((2, len(lengths), rows, outputs))
    own = np.zeros((rows, outputs))
    for kernel, weights_of_points in zip(kernels, solved, strict=True):
        at = lengths.index(kernel.length)
        constant += kernel.constant**2 * weights_of_points.sum(axis=0)
        linear += kernel.linear**2 / points.shape[1] * points.T @ weights_of_points
        near[at] += kernel.local**2 * weights_of_points
        own += kernel.shared**2 * kernel.everywhere * weights_of_points
        own_near[at] += kernel.shared**2 * (1 - kernel.everywhere) * weights_of_points
    return Gaussian(
        centre=centre,
        scale=scale,
        points=points,
        groups=tuple(groups),
        lengths=np.array(lengths),
        constant=constant,
        linear=linear,
        near=near,
        own=own,
        own_near=own_near,
        offset=offset,
        amplitude=amplitude,
    )


def _pairs(points: Floats, groups: Sequence[Group]) -> _Points:
    apart = points[:, None, :] - points[None]
    common = [[float(g[0] == k[0]) + float(g == k) for k in groups] for g in groups]
    return _Points(
        product=points @ points.T / points.shape[1],
        distance=np.sqrt((apart**2).sum(axis=2)),
        common=np.array(common),
    )


def _solve(noisy: Floats, wanted: Floats) -> Floats:
    """Return the Gaussian-process weight of each training row for each output; 0 for outputs
    without targets."""
    solution = np.zeros_like(wanted)
    known = np.isfinite(wanted)
    for pattern in np.unique(known, axis=1).T:
        rows = np.flatnonzero(pattern)
        outputs = np.flatnonzero((pattern[:, None] == known).all(axis=0))
        if len(rows):
            cells = np.ix_(rows, outputs)
            solution[cells] = np.linalg.solve(noisy[np.ix_(rows, rows)], wanted[cells])
    return solution


def _moments(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the weighted mean and standard deviation of each column's finite values; 0 where there
    are none."""
    known = np.isfinite(values)
    each = known * weights[:, None]
    total = np.maximum(each.sum(axis=0), 1e-300)
    centre = (each * np.where(known, values, 0.0)).sum(axis=0) / total
    apart = np.where(known, values - centre, 0.0)
    return centre, np.sqrt((each * apart**2).sum(axis=0) / total)


OTHER = "other"
"""Kind of platforms that ``CostModelFamily.kinds`` does not name."""
CPU_KINDS = frozenset({"cpu", "manycore"})
"""Kinds of platforms without a serial cost: one thread has its own core, as on the reference."""
RESIDUAL = tuple(
    CovarianceTerms(constant=0.3, linear=0.0, local=local, length=length, shared=0.6,
                    everywhere=0.3, noise=0.3)
    for length in (1.5, 2.5, 5.0)
    for local in (0.3, 0.6, 1.0)
)  # fmt: skip
"""Kernels of the residual process; their predictions are averaged."""
TREND = (
    CovarianceTerms(constant=3.0, linear=0.3, local=0.6, length=3.7, shared=0.55,
                    everywhere=0.25, noise=0.22),
)  # fmt: skip
"""Covariance of the process that predicts log speedups from features directly."""
TREND_ON_CPU, TREND_ELSEWHERE = 0.5, 0.1
"""Share of the trend in the predicted log time, on CPU platforms and on others."""
_FIRST_QUANTILE = 0.1
"""Quantile over rows from which the first guess of a log cost is made."""
_BELOW = -1.0
"""Difference of the first guess of a log cost from that quantile."""
_TO_KIND = 0.5
"""Standard deviation of a platform's log cost around the mean of its kind; 2 for launch costs."""
_LAUNCH_TO_KIND = 2.0
_TO_ALL = 3.0
"""Standard deviation of a kind's mean log cost around the mean of all kinds."""
_NOISE, _BEND = 0.5, 0.3
"""Scale of errors of log time, and the error from which they count linearly (pseudo-Huber)."""
_ROUNDS = 400
"""Largest number of iterations of the optimiser."""


@dataclass(frozen=True, slots=True)
class CostModelFamily:
    """The family that fits costs, a residual process and a trend over a data set's platforms."""

    name: str = "cost model"
    what: str = (
        "launch + serial + work + reference's time, positive costs shrunk to the platform's kind; "
        "Gaussian residual and trend, fixed and averaged"
    )
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Kind by platform; platforms that are not named form one kind together."""
    residual: tuple[CovarianceTerms, ...] = RESIDUAL
    """Kernels of the residual process."""
    trend_on_cpu: float = TREND_ON_CPU
    """Share of the trend in predicted log times on CPU platforms."""
    trend_elsewhere: float = TREND_ELSEWHERE
    """Share of the trend in predicted log times on other platforms."""

    def fit(self, rows: Rows, seed: int) -> CostModel:
        """Return the cost model: costs fitted by least pseudo-Huber error, then the two processes.

        Raises UsageError where nothing can be learnt from the rows.
        """
        check_rows(rows)
        view, fill = fitting(rows), _fill(rows)
        seen = view.seen(rows, fill)
        kinds = [self.kinds.get(name, OTHER) for name in rows.platforms]
        costs = fit_costs(rows, seen, kinds)
        groups = list(zip(rows.applications, rows.kernels, strict=True))
        left = rows.log_seconds - costs.log_seconds(seen)
        left[:, rows.reference_column] = 0.0
        kernels = self.residual
        residual = fit_gaussian(seen.features, left, groups, kernels, rows.weights(), scaled=True)
        trend = fit_gaussian(
            seen.features, rows.log_speedup, groups, TREND, rows.weights(),
            scaled=False, standard=True,
        )  # fmt: skip
        on_cpu = np.array([kind in CPU_KINDS for kind in kinds])
        measured = np.isfinite(rows.log_seconds).any(axis=0)
        share = np.where(on_cpu, self.trend_on_cpu, self.trend_elsewhere) * measured
        return CostModel(
            view, rows.counters, fill, rows.platforms, rows.reference, costs, residual, trend, share
        )


def fit_costs(rows: Rows, seen: ViewedRows, kinds: list[str]) -> Costs:
    """Return the log costs of each platform, shrunk to the mean of its kind and that to the mean of
    all.

    A platform without measured times gets the mean of its kind.
    """
    terms = tuple(seen.terms)
    logs = np.column_stack([seen.terms[name] for name in terms])
    names = sorted(set(kinds))
    of_kind = np.array([[kind == name for name in names] for kind in kinds], dtype=np.float64)
    absent = np.array([[kind in CPU_KINDS and term == SERIAL for term in terms] for kind in kinds])
    first = _first(rows.log_seconds, logs)
    means = of_kind.T @ first / of_kind.sum(axis=0)[:, None]
    problem = _CostFit(
        logs=logs,
        log_seconds=rows.log_seconds,
        weights=rows.weights(),
        of_kind=of_kind,
        absent=np.where(absent, ABSENT, 0.0),
        spread=np.array([_LAUNCH_TO_KIND if term == LAUNCH else _TO_KIND for term in terms]),
        middle=means.mean(axis=0),
    )
    start = np.concatenate([(of_kind @ means).ravel(), means.ravel()])
    minimum = minimize(
        problem.loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _ROUNDS}
    )
    costs, _ = problem.split(minimum.x)
    return Costs(terms, np.where(absent, ABSENT, costs))


@dataclass(frozen=True, slots=True)
class _CostFit:
    """The optimisation problem of fitting the log costs of platforms and of kinds of platform."""

    logs: Floats
    log_seconds: Floats
    weights: Floats
    of_kind: Floats
    """[platforms, kinds] 1 where the platform is of the kind."""
    absent: Floats
    spread: Floats
    middle: Floats

    def split(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Return the log costs of platforms and of kinds from one vector of parameters."""
        platforms, terms = self.absent.shape
        cut = platforms * terms
        return parameters[:cut].reshape(platforms, terms), parameters[cut:].reshape(-1, terms)

    def loss(self, parameters: Floats) -> tuple[float, Floats]:
        """Return the negative log posterior of the parameters, and its gradient."""
        costs, means = self.split(parameters)
        each = self.logs[:, None, :] + (costs + self.absent)
        most = each.max(axis=2)
        grown = np.exp(each - most[:, :, None])
        total = grown.sum(axis=2)
        off = most + np.log(total) - self.log_seconds
        off = np.where(np.isfinite(off), off, 0.0)
        bent = np.sqrt(1 + (off / _BEND) ** 2)
        weight = self.weights[:, None] / _NOISE**2
        by_cost = ((weight * off / bent / total)[:, :, None] * grown).sum(axis=0)
        from_kind = (costs - self.of_kind @ means) / self.spread
        from_all = (means - self.middle) / _TO_ALL
        value = (weight * _BEND**2 * (bent - 1)).sum()
        value += 0.5 * (from_kind**2).sum() + 0.5 * (from_all**2).sum()
        pull = from_kind / self.spread
        gradient = np.concatenate(
            [(by_cost + pull).ravel(), (from_all / _TO_ALL - self.of_kind.T @ pull).ravel()]
        )
        return float(value), gradient


def _first(log_seconds: Floats, logs: Floats) -> Floats:
    """Return first guesses of the log costs, [platforms, terms], for the optimiser.

    A platform without measured times gets the mean of the others.
    """
    guesses = np.full((log_seconds.shape[1], logs.shape[1]), np.nan)
    for platform, times in enumerate(log_seconds.T):
        known = np.isfinite(times)
        if known.any():
            room = times[known][:, None] - logs[known]
            guesses[platform] = np.quantile(room, _FIRST_QUANTILE, axis=0) + _BELOW
    return np.where(np.isfinite(guesses), guesses, np.nanmean(guesses, axis=0))


def _fill(rows: Rows) -> Floats:
    """Return the median of each counter over the rows that have it; 0 where no row has it."""
    known = np.isfinite(rows.values)
    return np.array(
        [
            float(np.median(column[is_known])) if is_known.any() else 0.0
            for column, is_known in zip(rows.values.T, known.T, strict=True)
        ]
    )
