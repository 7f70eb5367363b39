"""Aligned columns of plain text: readable on a terminal, in a log and in a mail.

On a terminal too narrow for them, the widest columns are shortened; a pipe and a file get all.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout

import click

from berth.pilot.errors import UsageError

APART = "-- below: priors, abstentions and places without code for them: not acted on --"
MEMORY_HEADER = ("HOST MEMORY <=", "GPU MEMORY <=")
"""Titles of the upper ends of both memories."""
_LEAST = 8
"""Characters that a column keeps."""
_recorded: list[tuple[Sequence[str], list[Sequence[str]]]] | None = None


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
    record(header, rows)
    table = [header, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    if sys.stdout.isatty():
        widths = fitted(widths, shutil.get_terminal_size().columns - indent)
    lines = ["  ".join(map(_cell, row, widths)).rstrip() for row in table]
    if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        lines[0] = click.style(lines[0], bold=True)
    if first is not None and first < len(rows):
        lines.insert(1 + first, APART)
    return "\n".join(" " * indent + line for line in lines)


def record(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Note a table that is printed otherwise, for CSV."""
    if _recorded is not None:
        _recorded.append((header, list(rows)))


def fitted(widths: Sequence[int], most: int) -> list[int]:
    """Widths of columns that fit side by side, the widest made narrower; as far as they can."""
    found = list(widths)
    over = sum(found) + 2 * (len(found) - 1) - most
    while over > 0:
        widest = max(range(len(found)), key=found.__getitem__)
        if found[widest] <= _LEAST:
            break
        second = max([w for i, w in enumerate(found) if i != widest], default=_LEAST)
        less = max(1, min(over, found[widest] - max(second, _LEAST)))
        found[widest] -= less
        over -= less
    return found


@contextmanager
def tables_as_csv() -> Iterator[None]:
    """What is printed within is left out but for its tables, which are printed as CSV at the end.

    Several tables are apart by an empty line. Raises UsageError where there was none.
    """
    global _recorded  # noqa: PLW0603 - what commands print is the process's own
    found: list[tuple[Sequence[str], list[Sequence[str]]]] = []
    words = io.StringIO()
    _recorded = found
    try:
        with redirect_stdout(words):
            yield
    finally:
        _recorded = None
    if sys.exc_info()[0] is not None:  # the command failed and says so itself
        return
    if not found:
        raise UsageError(
            "this printed no table to write as CSV", hint=" ".join(words.getvalue().split())[:200]
        )
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for number, (header, rows) in enumerate(found):
        if number:
            out.write("\n")
        writer.writerows([[_plain(cell) for cell in row] for row in (header, *rows)])
    click.echo(out.getvalue(), nl=False)


def _plain(text: str) -> str:
    """Users' words are no formulas of a spreadsheet."""
    return f"'{text}" if text.startswith(("=", "@", "\t", "\r")) else text


def _cell(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"
