"""The table of the gate: every figure with its value before and now, and the verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from lab.gate.figure import Figure, Frozen, Part, Verdict, verdict
from lab.gate.results import Result

HEADER = ("part", "figure", "data", "split", "before", "tolerance", "now", "verdict")
WORSE_STATUS, INCOMPLETE_STATUS = 1, 2


@dataclass(frozen=True, slots=True)
class Line:
    """One figure, judged."""

    part: Part
    figure: Figure
    before: Frozen | None
    now: float | None
    verdict: Verdict

    def cells(self) -> tuple[str, ...]:
        """Return the cells in the order of ``HEADER``."""
        before = "-" if self.before is None else shown(self.figure, self.before.before)
        mark = "*" if self.before is not None and self.before.frozen_from == "docs" else ""
        now = "-" if self.now is None else shown(self.figure, self.now)
        return (
            self.part.name, self.figure.name, self.figure.data, self.figure.split, before + mark,
            _tolerance(self.figure), now, self.verdict.value,
        )  # fmt: skip


def judge(
    parts: Iterable[Part], results: Mapping[str, Result], frozen: Mapping[str, Frozen]
) -> list[Line]:
    """Return every figure of ``parts``."""
    lines = []
    for part in parts:
        result = results.get(part.name)
        for figure in part.figures:
            before = frozen.get(figure.id)
            now = _value(result, figure.id)
            lines.append(
                Line(
                    part, figure, before, now,
                    verdict(figure, None if before is None else before.before, now),
                )
            )  # fmt: skip
    return lines


def exit_status(lines: Iterable[Line]) -> int:
    """1: a figure is worse; 2: none is, but some were not computed or have no value before."""
    found = {line.verdict for line in lines}
    if Verdict.WORSE in found:
        return WORSE_STATUS
    return INCOMPLETE_STATUS if found & {Verdict.NOT_COMPUTED, Verdict.NOT_FROZEN} else 0


def summary(lines: Sequence[Line]) -> str:
    """Return how many figures have which verdict, in one line."""
    counted = Counter(line.verdict for line in lines)
    said = ", ".join(f"{counted[one]} {one.value}" for one in Verdict if counted[one])
    docs = any(line.before is not None and line.before.frozen_from == "docs" for line in lines)
    note = "; * is the value that the documentation prints" if docs else ""
    return f"{len(lines)} figures: {said}{note}"


def worse(lines: Iterable[Line]) -> list[str]:
    """Return one sentence for each figure that is worse."""
    return [
        f"{line.verdict}: {line.figure.id}, {line.cells()[4]} before, {line.cells()[6]} now"
        for line in lines
        if line.verdict is Verdict.WORSE
    ]


def outdated(lines: Iterable[Line]) -> list[str]:
    """Return one sentence for each value now that its page would print in other digits."""
    return [
        f"{line.figure.source} prints {line.figure.printed:g}, now {line.now:.5g}: {line.figure.id}"
        for line in lines
        if line.now is not None
        and line.figure.printed is not None
        and not _prints_as(line.now, line.figure.printed)
    ]


def table(lines: Iterable[Line]) -> str:
    """Return all lines under their header, in columns."""
    rows = [HEADER, *(line.cells() for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def shown(figure: Figure, value: float) -> str:
    """Return the value in the figure's unit."""
    if not math.isfinite(value):
        return "not a number"
    if figure.unit == "%":
        return f"{value:.2%}"
    if figure.unit == "count":
        return f"{value:.0f}"
    return f"{value:.4g} ms" if figure.unit == "ms" else f"{value:.4g}"


def _prints_as(value: float, printed: float) -> bool:
    exponent = Decimal(repr(printed)).as_tuple().exponent
    digits = -exponent if isinstance(exponent, int) else 0
    return abs(value - printed) <= 0.5001 * 10.0**-digits


def _tolerance(figure: Figure) -> str:
    sign = {"lower": "+", "higher": "-", "near": "+-"}[figure.better]
    text = sign + shown(figure, figure.tolerance)
    return text if figure.target is None else f"{text} to {shown(figure, figure.target)}"


def _value(result: Result | None, name: str) -> float | None:
    if result is None or name not in result.values:
        return None
    value = result.values[name]
    return math.nan if value is None else value
