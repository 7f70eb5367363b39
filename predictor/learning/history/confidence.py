"""How accurate predictions will be, from how accurate those were that looked the same.

What the evidence expects of itself is too high where a user has ended few jobs. So predictions are
put into cells by what they expected and by how many jobs of the user had ended; each cell
remembers the accuracy that followed. A prediction is trusted unless it is among the least
accurate share of the recent ones.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

DISTRUSTED = 0.05
"""Share of predictions that is not acted on."""
_EXPECTED_CELLS = 20
_COUNT_CELLS = 8
_PRIOR = 20.0
"""Predictions that a cell's beginning counts for."""
_RECENT = 4_000
_RENEWED = 100
"""Predictions between two looks at the recent ones."""
_FIRST = 100


class Confidence:
    """Accuracy by cell, and what share of recent predictions was how accurate."""

    def __init__(self) -> None:
        expected = (np.arange(_EXPECTED_CELLS) + 0.5) / _EXPECTED_CELLS
        # As on the trace that the weights are from: too sure of itself, most so after few jobs.
        known = 1.0 - 0.5 ** (1.0 + np.arange(_COUNT_CELLS))
        self._count = np.full((_EXPECTED_CELLS, _COUNT_CELLS), _PRIOR)
        self._sum = _PRIOR * 0.8 * np.outer(expected, known)
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._least = 0.0
        self._asked = 0

    def of(self, expected: float, runs: int) -> float:
        """The accuracy to expect after ``runs`` ended jobs of the user."""
        cell = _cell(expected, runs)
        return float(self._sum[cell] / self._count[cell])

    def learn(self, expected: float, runs: int, accuracy: float) -> None:
        """What came of a prediction."""
        cell = _cell(expected, runs)
        self._count[cell] += 1.0
        self._sum[cell] += accuracy

    def seen(self, accuracy: float) -> None:
        """One more prediction was made."""
        self._recent.append(accuracy)
        self._asked += 1
        if self._asked % _RENEWED == 0 and len(self._recent) >= _FIRST:
            self._least = float(np.quantile(np.fromiter(self._recent, float), DISTRUSTED))

    def trusts(self, accuracy: float) -> bool:
        """Whether it is not among the least accurate."""
        return accuracy >= self._least


def _cell(expected: float, runs: int) -> tuple[int, int]:
    return (
        min(int(expected * _EXPECTED_CELLS), _EXPECTED_CELLS - 1),
        min(int(math.log2(1 + runs)), _COUNT_CELLS - 1),
    )
