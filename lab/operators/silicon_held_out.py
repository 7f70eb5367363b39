"""Predictions of GPUs that nothing was fitted or chosen on.

Everything measured on one kind of silicon is predicted from all rows of the others. The power law
is chosen by leaving out one kind of silicon of those rows after the other (nested).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.graph.operators.bundle import KINDS, IntervalFactors, OperatorGroup
from berth.predictor.families.graph.operators.physics import PowerLimit
from lab.ground.table import Strings
from lab.operators.fit_operators import FULL, QUICK, Fitted, Size, fit
from lab.operators.operator_rows import Rows, rows

POWER_LIMITS = (
    PowerLimit(20.0, 0.0), PowerLimit(15.0, 1.0), PowerLimit(20.0, 1.0), PowerLimit(25.0, 1.0),
    PowerLimit(20.0, 0.5), PowerLimit(20.0, 1.5),
)  # fmt: skip
"""Candidates; with the first one (exponent 0), power does not matter."""
_SCORED = 800
"""Rows of a GPU and kind that a limit is chosen by."""


@dataclass(frozen=True)
class Held:
    """Rows with what was predicted of them, nothing of them having been fitted."""

    rows: Rows
    seconds: Floats
    power: Mapping[str, PowerLimit]
    """The chosen power limit, by left-out silicon."""


def choose_power(seed: int, without: str | None = None) -> PowerLimit:
    """Return the limit with the least median error of products on silicon left out.

    ``without``: this silicon, that nothing is chosen on.
    """
    others = [str(chip) for chip in np.unique(_products().chip) if chip != without]
    scores = []
    for limit in POWER_LIMITS:
        pairs = (frozenset({chip} | ({without} if without else set())) for chip in others)
        found = [
            _median_errors(limit, pair, seed)[chip]
            for chip, pair in zip(others, pairs, strict=True)
        ]
        scores.append(float(np.mean(found)))
    return POWER_LIMITS[int(np.argmin(scores))]


@cache
def _products() -> Rows:
    given = rows()
    return given[np.isin(given.calls.kind, KINDS[OperatorGroup.PRODUCTS])]


@cache
def _median_errors(limit: PowerLimit, out: frozenset[str], seed: int) -> dict[str, float]:
    """Return the median error of each silicon of ``out``, when all of it was left out."""
    given = _products()
    leaving = np.isin(given.chip, sorted(out))
    fitted = fit(given[~leaving], limit, seed, QUICK, (OperatorGroup.PRODUCTS,))
    found = {}
    for chip in sorted(out):
        some = _some(given[given.chip == chip], seed)
        found[chip] = float(np.median(np.abs(fitted.seconds(some) / some.seconds - 1)))
    return found


def _some(given: Rows, seed: int) -> Rows:
    rng, taken = np.random.default_rng(seed), []
    for gpu in np.unique(given.gpu):
        for kind in np.unique(given.calls.kind):
            found = np.flatnonzero((given.gpu == gpu) & (given.calls.kind == kind))
            taken.append(rng.permutation(found)[:_SCORED])
    return given[np.concatenate(taken)]


@cache
def without(chip: str, seed: int = 0, size: Size = FULL) -> Fitted:
    """Return the fit on all rows of other silicon, with the power limit chosen on these rows."""
    given = rows()
    return fit(given[given.chip != chip], choose_power(seed, chip), seed, size)


def left_out(
    seed: int = 0, size: Size = FULL, advance: Callable[[str], None] = lambda _: None
) -> Held:
    """Return every row, predicted from the other kinds of silicon."""
    given = rows()
    seconds, power = np.zeros(len(given)), {}
    for chip in np.unique(given.chip):
        fitted = without(str(chip), seed, size)
        power[str(chip)] = fitted.power
        of = np.flatnonzero(given.chip == chip)
        seconds[of] = fitted.seconds(given[of])
        advance(str(chip))
    return Held(given, seconds, power)


def width(held: Held, kinds: Sequence[int]) -> IntervalFactors:
    """Return the 90 % interval over all rows of some kinds, each GPU weighing the same."""
    of = np.isin(held.rows.calls.kind, kinds)
    return width_of(held.rows.seconds[of] / held.seconds[of], held.rows.gpu[of])


def width_of(ratio: Floats, gpu: Strings) -> IntervalFactors:
    """Return the 90 % interval of measured over predicted, each GPU weighing the same."""
    names, place, count = np.unique(gpu, return_inverse=True, return_counts=True)
    order = np.argsort(ratio)
    share = np.cumsum((1 / count)[place][order]) / len(names)
    ends = np.minimum(np.searchsorted(share, (0.05, 0.95)), len(ratio) - 1)
    low, high = ratio[order][ends].tolist()
    return IntervalFactors(low=min(low, 1.0), high=max(high, 1.0), rows=len(ratio), gpus=len(names))
