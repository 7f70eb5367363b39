"""MISO's ``fits``: does a training program run on a slice, predicted before anybody runs it there?

Leave-one-model-out: the share of counted memory that is needed is learnt from the other seven
programs. A slice is predicted to fit where it holds the upper end of the 95 % interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lab.datasets.mig import USABLE_MIB
from lab.footprint.fit_memory import ENDS, training_shares
from lab.footprint.memory_labels import DUMMY_MIB, Trained, trained


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
    """Ours and the reservation alone. Raises ToolMissing without MISO's table."""
    cases = trained() if cases is None else cases
    high = _upper(cases)
    found = (
        _row("graph and reservation", "the model, and what was reserved on the whole GPU", cases,
             lambda c: min(high(c), c.reserved_mib)),
        _row("reservation", "what was reserved on the whole GPU", cases, lambda c: c.reserved_mib),
    )  # fmt: skip
    return SliceFits("leave-one-model-out", found)


def _upper(cases: Sequence[Trained]) -> Callable[[Trained], float]:
    shares = {
        name: training_shares([case for case in cases if case.model != name]).quantile(ENDS[2])
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
