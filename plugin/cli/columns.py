"""Aligned columns of plain text: readable on a terminal, in a log and in a mail."""

from __future__ import annotations

from collections.abc import Sequence


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], *, indent: int = 2) -> str:
    """A table with a header line; columns are two spaces apart, lines have no trailing space."""
    table = [header, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )
    return "\n".join(" " * indent + line for line in lines)
