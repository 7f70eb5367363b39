"""Tables as CSV, for a spreadsheet: what a command prints within ``tables_as_csv``."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout

import click

from berth.pilot.errors import UsageError

_recorded: list[tuple[Sequence[str], list[Sequence[str]]]] | None = None


def record(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Note a table that is printed, where CSV is wanted of it."""
    if _recorded is not None:
        _recorded.append((header, list(rows)))


@contextmanager
def tables_as_csv() -> Iterator[None]:
    """Leave out what is printed within but for its tables, and print these as CSV at the end.

    Several tables are apart by an empty line. Raises UsageError where there was none.
    """
    global _recorded  # noqa: PLW0603 - what commands print is the process's own
    tables: list[tuple[Sequence[str], list[Sequence[str]]]] = []
    words = io.StringIO()
    _recorded = tables
    try:
        with redirect_stdout(words):
            yield
    finally:
        _recorded = None
    if sys.exc_info()[0] is not None:  # the command failed and says so itself
        return
    if not tables:
        raise UsageError(
            "this printed no table to write as CSV", hint=" ".join(words.getvalue().split())[:200]
        )
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for number, (header, rows) in enumerate(tables):
        if number:
            out.write("\n")
        writer.writerows([[_plain(cell) for cell in row] for row in (header, *rows)])
    click.echo(out.getvalue(), nl=False)


def _plain(text: str) -> str:
    """Users' words are no formulas of a spreadsheet."""
    return f"'{text}" if text.startswith(("=", "@", "\t", "\r")) else text
