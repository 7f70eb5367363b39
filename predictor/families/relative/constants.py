"""Counters with one value in all training programs: nothing was learnt of any other value.

A model cannot look at them, so that a program of 32 threads would be answered like one of the
single-threaded ones it learnt from. Their values are kept with the bundle, to say so.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from berth.pilot.catalogue import BY_NAME
from berth.predictor.core.arrays import Floats

WIDEST_SAME_FACTOR = 1.5
"""Two threads are unlike one."""
_LEAST, _LEAST_RATIO = 1.0, 0.1
"""What is below counts as this: of nothing there is no factor. Of ratios the second."""
_LEAST_EVENTS = 1000.0
"""Of events: two page faults, or atomic updates, among millions of instructions are none."""
_UNITS_OF_RUN = frozenset(("threads", "processes"))
"""Counters of the run's shape, where 2 is not nearly 1."""
_COUNTED_IN = 0.5
"""Share of the training programs that must have the counter."""


def constants(names: tuple[str, ...], values: Floats) -> dict[str, float]:
    """Name -> value of those with one in all rows (rows x counters, NaN: missing) that have it.

    A counter that fewer than half of the rows have says nothing of the training programs.
    """
    found = {}
    for name, column in zip(names, values.T, strict=True):
        known = column[np.isfinite(column)]
        if len(known) and len(known) >= _COUNTED_IN * len(column) and (known == known[0]).all():
            found[name] = float(known[0])
    return found


def unlike(constants: Mapping[str, float], values: Mapping[str, float]) -> str | None:
    """The first counter whose value is another than in training; None where there is none.

    One that ``values`` lacks is not judged.
    """
    for name, usual in constants.items():
        if name not in values:
            continue
        least = _least(name)
        low, high = sorted((max(values[name], least), max(usual, least)))
        if high > WIDEST_SAME_FACTOR * low:
            return (
                f"{name} is {values[name]:.3g}, and {usual:.3g} in all programs that the bundle "
                "was trained on"
            )
    return None


def _least(name: str) -> float:
    entry = BY_NAME.get(name)
    if entry is None or name in _UNITS_OF_RUN:
        return _LEAST
    if entry.unit == "ratio":
        return _LEAST_RATIO
    return _LEAST_EVENTS if entry.unit == "count" else _LEAST
