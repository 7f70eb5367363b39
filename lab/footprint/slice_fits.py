"""MISO's ``fits``: does a training program run on a slice, predicted before anybody runs it there?

Leave-one-model-out: the share of counted memory that is needed is learnt from the other seven
programs. A slice is predicted to fit where it holds the upper end of the 95 % interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lab.footprint.fit_memory import ENDS, PRIOR_WIDTH, training_shares
from lab.footprint.memory_labels import (
    DUMMY_MIB,
    MIB,
    USABLE_MIB,
    Trained,
    trained,
)

OTHER_WIDTHS = (0.25, 1.0)
"""Of the prior, to see how much hangs on it."""


@dataclass(frozen=True, slots=True)
class FitsRow:
    """One way to say whether a slice fits."""

    name: str
    source: str
    false_fits: int
    failed: int
    """Of so many slices on which programs failed."""
    false_refusals: int
    ran: int
    wrong: tuple[str, ...]
    """Model, batch and slice of every false answer."""

    @property
    def refusal_share(self) -> float:
        """False "does not fit" among the slices that ran."""
        return self.false_refusals / self.ran


@dataclass(frozen=True, slots=True)
class SliceFits:
    """All ways on the same rows."""

    split: str
    rows: tuple[FitsRow, ...]


def slice_fits(cases: Sequence[Trained] | None = None) -> SliceFits:
    """Ours and the baselines. Raises ToolMissing without MISO's table."""
    cases = trained() if cases is None else cases
    high = _upper(cases, PRIOR_WIDTH)
    found = [
        _row("graph and reservation", "the model, and what was reserved on the whole GPU", cases,
             lambda c: min(high(c), c.reserved_mib)),
        _row("graph alone", "the model", cases, high),
        _row("graph, middle of the interval", "the model", cases, _upper(cases, PRIOR_WIDTH, 0.5)),
        _row("reservation", "what was reserved on the whole GPU", cases, lambda c: c.reserved_mib),
        _row("weights + largest activation", "the model", cases,
             lambda c: DUMMY_MIB + c.forward_mib),
        _row("parameters x 4, with gradients and moments", "the model", cases,
             lambda c: DUMMY_MIB + 16 * c.parameters / MIB),
    ]  # fmt: skip
    for width in OTHER_WIDTHS:
        other = _upper(cases, width)
        found.append(
            _row(f"graph and reservation, prior of width {width:g}", "as the first", cases,
                 lambda c, other=other: min(other(c), c.reserved_mib))  # type: ignore[misc]
        )  # fmt: skip
    return SliceFits("leave-one-model-out", tuple(found))


def _upper(
    cases: Sequence[Trained], width: float, end: float = ENDS[2]
) -> Callable[[Trained], float]:
    shares = {
        name: training_shares(
            [case for case in cases if case.model != name], prior_width=width
        ).quantile(end)
        for name in {case.model for case in cases}
    }
    return lambda case: DUMMY_MIB + shares[case.model] * case.counted_mib


def _row(
    name: str, source: str, cases: Sequence[Trained], need: Callable[[Trained], float]
) -> FitsRow:
    false_fits = failed = refusals = ran = 0
    wrong = []
    for case in cases:
        upper = need(case)
        for row in case.rows:
            predicted = upper <= USABLE_MIB[row.profile]
            ran += row.fits
            failed += not row.fits
            false_fits += predicted and not row.fits
            refusals += row.fits and not predicted
            if predicted != row.fits:
                wrong.append(f"{case.model} {case.batch} on {row.profile}")
    return FitsRow(name, source, false_fits, failed, refusals, ran, tuple(wrong))
