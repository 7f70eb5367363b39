"""Aligned columns of plain text: readable on a terminal, in a log and in a mail."""

from __future__ import annotations

from collections.abc import Sequence

APART = "-- below: priors, abstentions and places without code for them: not acted on --"


def columns(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    indent: int = 2,
    first: int | None = None,
) -> str:
    """A table with a header line; columns are two spaces apart, lines have no trailing space.

    After the ``first`` rows comes ``APART``, where there are more; None: no such line.
    """
    table = [header, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    if first is not None and first < len(rows):
        lines.insert(1 + first, APART)
    return "\n".join(" " * indent + line for line in lines)
