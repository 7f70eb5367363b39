"""The default family on a platform that few workloads were timed on.

V100 and Quartz in turn are new; the bundle's prior for it is the other one's (there is no third
labelled platform, so a GPU starts from a CPU's prior and the other way round). In every draw half
of the kernels are for labels and for that prior, the other half for the test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from berth.pilot.platform import Platform
from berth.plugin.report.progress_bars import step_bar
from berth.predictor.core.intervals import DIFFICULTY_FLOOR, group_quantile
from berth.predictor.families.program.bundle import Calibration
from berth.predictor.hardware import platforms as platform_files
from berth.predictor.learning.programs.adapt import adapted
from berth.predictor.learning.programs.columns import LabelRows
from berth.predictor.learning.programs.prior import TYPICAL_DIFFICULTY, log_times
from lab.datasets.rajaperf import LABELS as LABELLED
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.kernels.examples import Example, columns, read_examples
from lab.kernels.residual_model import fit_prior

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
    coverage: tuple[float, ...]
    """Share of rows inside the nominal 90 % interval."""


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
            (f"{curve.platform} from the prior of {curve.prior_of}", words, *map(_percent, values))
            for curve in curves
            for words, values in (("median error", curve.error), ("90 % coverage", curve.coverage))
        ],
    )
    data = {"split": SPLIT, "labels": LABELS, "curves": curves}
    return Report("Programs on a platform that few were timed on", sections=(section,), data=data)


def _percent(share: float) -> str:
    return f"{share:.0%}"


def evaluate_adapted(
    examples: Sequence[Example],
    platforms: Mapping[str, Platform],
    *,
    seed: int,
    advance: Callable[[], None] = lambda: None,
) -> list[AdaptedCurve]:
    """Return one curve per labelled platform. ``advance`` is called after each draw."""
    reference = platforms[examples[0].profile.platform]
    data = {name: columns(examples, platforms[name], reference) for name in LABELLED}
    curves = []
    for new, other in permutations(LABELLED, 2):
        found = np.zeros((DRAWS, len(LABELS), 2))
        for draw in range(DRAWS):
            found[draw] = _drawn(data[new], data[other], np.random.default_rng([seed, draw]))
            advance()
        error, coverage = found.mean(axis=0).T.tolist()
        curves.append(AdaptedCurve(new, other, tuple(error), tuple(coverage)))
    return curves


def steps() -> int:
    """Return how often ``evaluate_adapted`` calls ``advance``."""
    return DRAWS * len(LABELLED)


def _drawn(
    data: LabelRows, other: LabelRows, rng: np.random.Generator
) -> list[tuple[float, float]]:
    """Return error and coverage of one draw for each of ``LABELS``."""
    names_of = np.array(data.kernels)
    order = rng.permutation(sorted(set(data.kernels)))
    pool = order[: len(order) // 2].tolist()
    mine = np.isin(names_of, pool)
    kind = _kind(other.take(np.flatnonzero(mine).tolist()))
    labelled = [int(rng.choice(np.flatnonzero(names_of == kernel))) for kernel in pool]
    test = data.take(np.flatnonzero(~mine).tolist())
    return [_figures(data.take(labelled[:count]), test, kind) for count in LABELS]


def _kind(other: LabelRows) -> Calibration:
    """Return the prior of a kind as a bundle would hold it, from the other platform's kernels."""
    prior = fit_prior(other)
    off = np.abs(other.log_time - log_times(prior, other)) / TYPICAL_DIFFICULTY
    return Calibration(
        bias=prior.bias,
        carry=prior.carry,
        reduction_s=0.0,
        score_quantile=group_quantile(list(off), other.kernels),
    )


def _figures(labelled: LabelRows, test: LabelRows, kind: Calibration) -> tuple[float, float]:
    """Return error and coverage as of a platform that a bundle was adapted to."""
    made = adapted(labelled, kind)
    off = np.abs(test.log_time - log_times(made, test))
    covered = off <= made.score_quantile * DIFFICULTY_FLOOR
    return float(np.median(np.expm1(off))), float(covered.mean())
