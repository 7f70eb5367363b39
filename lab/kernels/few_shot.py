"""The default family on a platform that few workloads were timed on.

V100 and Quartz in turn are new; the bundle's prior for it is the other one's (there is no third
labelled platform, so a GPU starts from a CPU's prior and the other way round). In every draw half
of the kernels are for labels and for that prior, the other half for the test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from berth.pilot.platform import Platform
from berth.plugin.report.progress_bars import step_bar
from berth.predictor.core.intervals import DIFFICULTY_FLOOR, group_quantile
from berth.predictor.families.program.bundle import Calibration
from berth.predictor.hardware import platforms as platform_files
from berth.predictor.learning.programs.adapt import adapted
from berth.predictor.learning.programs.columns import LabelRows
from berth.predictor.learning.programs.prior import (
    TYPICAL_DIFFICULTY,
    Prior,
    honest_quantile,
)
from lab.datasets.rajaperf import LABELS as LABELLED
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.kernels.examples import Example, columns, read_examples
from lab.kernels.residual_model import fit_prior

Flags = NDArray[np.bool_]
LABELS = (0, 1, 2, 4, 8, 16)
DRAWS = 10
SPLIT = (
    f"{DRAWS} draws: half of the kernels for k labels (one size each), the other half with all "
    "sizes for the test; medians of a draw, averaged"
)


@dataclass(frozen=True, slots=True)
class AdaptedCurve:
    """Figures on a new platform over draws, one value for each number of labels in ``LABELS``."""

    platform: str
    prior_of: str
    """The platform whose fitted prior is the start of the adaptation."""
    error: tuple[float, ...]
    """Median ``|time error|``."""
    mean_log_error: tuple[float, ...]
    low: tuple[float, ...]
    """Least median error over draws."""
    high: tuple[float, ...]
    coverage: tuple[float, ...]
    """Share of rows inside the nominal 90 % interval."""
    factor: tuple[float, ...]
    """Median over rows of the interval's upper end / predicted time."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """A labelled platform as the new one, and the other, whose prior it starts from."""

    new: str
    prior_of: str
    data: LabelRows
    other: LabelRows


def evaluate(options: Options) -> Report:
    """Report both curves."""
    with step_bar("evaluating", steps()) as advance:
        curves = evaluate_adapted(
            read_examples(), platform_files.load(), seed=options.seed, advance=advance
        )
    section = Section(
        f"Split: {SPLIT}",
        ("new platform", "figure", *(f"k = {k}" for k in LABELS)),
        [
            (f"{curve.platform} from the prior of {curve.prior_of}", words, *cells)
            for curve in curves
            for words, cells in (
                (
                    "median error",
                    [
                        f"{mid:.0%} ({low:.0%} to {high:.0%})"
                        for mid, low, high in zip(curve.error, curve.low, curve.high, strict=True)
                    ],
                ),
                ("mean log error", [f"{value:.3f}" for value in curve.mean_log_error]),
                ("90 % coverage", [f"{value:.0%}" for value in curve.coverage]),
                ("upper / middle", [f"{value:.1f}" for value in curve.factor]),
            )
        ],
    )
    data = {"split": SPLIT, "labels": LABELS, "curves": curves}
    return Report("Programs on a platform that few were timed on", sections=(section,), data=data)


def evaluate_adapted(
    examples: Sequence[Example],
    platforms: Mapping[str, Platform],
    *,
    seed: int,
    advance: Callable[[], None] = lambda: None,
) -> list[AdaptedCurve]:
    """Return one curve per labelled platform. ``advance`` is called after each draw."""
    return [_curve(turn, seed, advance) for turn in _turns(examples, platforms)]


def _turns(examples: Sequence[Example], platforms: Mapping[str, Platform]) -> list[_Turn]:
    reference = platforms[examples[0].profile.platform]
    data = {name: columns(examples, platforms[name], reference) for name in LABELLED}
    first, second = LABELLED
    return [
        _Turn(new, other, data[new], data[other])
        for new, other in ((first, second), (second, first))
    ]


def steps() -> int:
    """Return how often ``evaluate_adapted`` calls ``advance``."""
    return DRAWS * len(LABELLED)


def _halves(data: LabelRows, seed: int, draw: int) -> tuple[list[str], Flags, np.random.Generator]:
    """Return the kernels that labels are of, in a drawn order, and which rows are of them."""
    rng = np.random.default_rng([seed, draw])
    order = rng.permutation(sorted(set(data.kernels)))
    pool = order[: len(order) // 2].tolist()
    return pool, np.isin(np.array(data.kernels), pool), rng


def _curve(turn: _Turn, seed: int, advance: Callable[[], None]) -> AdaptedCurve:
    data = turn.data
    found = np.zeros((DRAWS, len(LABELS), 4))
    for draw in range(DRAWS):
        pool, mine, rng = _halves(data, seed, draw)
        names_of = np.array(data.kernels)
        kind = _kind(turn.other.take(np.flatnonzero(mine).tolist()))
        labelled = [int(rng.choice(np.flatnonzero(names_of == kernel))) for kernel in pool]
        test = data.take(np.flatnonzero(~mine).tolist())
        for n, count in enumerate(LABELS):
            found[draw, n] = _figures(data.take(labelled[:count]), test, kind)
        advance()
    mean, error = found.mean(axis=0), found[:, :, 0]
    return AdaptedCurve(
        platform=turn.new,
        prior_of=turn.prior_of,
        error=tuple(mean[:, 0].tolist()),
        mean_log_error=tuple(mean[:, 1].tolist()),
        low=tuple(error.min(axis=0).tolist()),
        high=tuple(error.max(axis=0).tolist()),
        coverage=tuple(mean[:, 2].tolist()),
        factor=tuple(mean[:, 3].tolist()),
    )


def _kind(other: LabelRows) -> Calibration:
    """Return the prior of a kind as a bundle would hold it, from the other platform's kernels."""
    prior = fit_prior(other)
    off = np.abs(other.log_time - prior.log_time(other)) / TYPICAL_DIFFICULTY
    return Calibration(
        bias=prior.bias,
        carry=prior.carry,
        reduction_s=0.0,
        score_quantile=group_quantile(list(off), other.kernels),
    )


def _figures(labelled: LabelRows, test: LabelRows, kind: Calibration) -> tuple[float, ...]:
    """Return error, mean log error, coverage and factor as of a platform that a bundle was adapted
    to."""
    if len(labelled):
        made = adapted(labelled, kind)
        prior, quantile = made.prior, made.quantile
    else:
        prior = Prior(kind.bias, kind.carry, kind.reduction_s)
        quantile = honest_quantile(np.zeros(0), (), kind.score_quantile)
    width = quantile * DIFFICULTY_FLOOR
    off = np.abs(test.log_time - prior.log_time(test))
    return (
        float(np.median(np.expm1(off))),
        float(off.mean()),
        float((off <= width).mean()),
        float(np.exp(width)),
    )
