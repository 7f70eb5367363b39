"""How well a new machine is known: before its calibration, after it, and fully labelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lab.ground.report import Section
from lab.ground.table import Floats

BAR = 1.3
"""Error after calibration over that of the fully labelled machine, at most."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Figures of predictions on the machine, held out."""

    error: float
    """Median ``|time error|``."""
    factor: float
    """Median of the upper time over the middle one."""
    coverage: float
    """Of the nominal 90 % interval."""


@dataclass(frozen=True, slots=True)
class NewMachine:
    """One machine that was in no training, by what is run on it."""

    machine: str
    before: Knowledge
    """Nothing was run there."""
    calibrated: Knowledge
    """The suite of a calibration was."""
    labelled: Knowledge
    """Everything was that the training has of other machines."""

    @property
    def ratio(self) -> float:
        """Error after calibration over that of the fully labelled machine."""
        return self.calibrated.error / self.labelled.error


def known(log_off: Floats, log_width: Floats) -> Knowledge:
    """From the distance of each prediction from the measured time, and half its interval's width,
    both in log time."""
    off = np.abs(log_off)
    return Knowledge(
        float(np.median(np.expm1(off))),
        float(np.exp(np.median(log_width))),
        float((off <= log_width).mean()),
    )


def averaged(found: Sequence[Knowledge]) -> Knowledge:
    """The mean of each figure: over draws, applications or machines."""
    return Knowledge(
        float(np.mean([one.error for one in found])),
        float(np.mean([one.factor for one in found])),
        float(np.mean([one.coverage for one in found])),
    )


def together(name: str, machines: Sequence[NewMachine]) -> NewMachine:
    """The mean over machines."""
    return NewMachine(
        name,
        averaged([one.before for one in machines]),
        averaged([one.calibrated for one in machines]),
        averaged([one.labelled for one in machines]),
    )


def section(title: str, machines: Sequence[NewMachine]) -> Section:
    """A row for each machine."""
    states = ("before", "calibrated", "fully labelled")
    header = (
        "new machine",
        *(f"{state}: error" for state in states),
        *(f"{state}: upper / middle (coverage)" for state in states),
        "error calibrated / labelled",
    )
    rows = [
        (
            one.machine,
            *(f"{state.error:.0%}" for state in _states(one)),
            *(f"{state.factor:.2f} ({state.coverage:.0%})" for state in _states(one)),
            f"{one.ratio:.2f} ({'at most' if one.ratio <= BAR else 'over'} {BAR:g})",
        )
        for one in machines
    ]
    return Section(title, header, rows)


def _states(one: NewMachine) -> tuple[Knowledge, Knowledge, Knowledge]:
    return one.before, one.calibrated, one.labelled
