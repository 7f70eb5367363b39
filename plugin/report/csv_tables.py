"""Writes tables as CSV for spreadsheets: the tables that a command prints within ``tables_as_csv``.

The header has the columns' keys, the same as in JSON; cells have values in the unit that the key
names, and are empty where a value is unknown.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

import click

from berth.pilot.errors import UsageError
from berth.plugin.report.parts import Column, Table, ends_of

_recorded: list[Table[Any]] | None = None


def record(table: Table[Any]) -> None:
    """Collect a printed table for CSV output; does nothing outside ``tables_as_csv``."""
    if _recorded is not None:
        _recorded.append(table)


@contextmanager
def tables_as_csv() -> Iterator[None]:
    """Suppress the text printed within the block, and print its tables as CSV when the block ends.

    An empty line separates tables. Raises UsageError where the block printed no table.
    """
    global _recorded  # noqa: PLW0603 - what commands print is the process's own
    tables: list[Table[Any]] = []
    words = io.StringIO()
    _recorded = tables
    try:
        with redirect_stdout(words):
            yield
    finally:
        _recorded = None
    if sys.exc_info()[0] is not None:  # the command failed and has reported its error
        return
    if not tables:
        raise UsageError(
            "this printed no table to write as CSV", hint=" ".join(words.getvalue().split())[:200]
        )
    click.echo("\n".join(map(table_csv, tables)), nl=False)


def table_csv(table: Table[Any]) -> str:
    """Return a table as CSV text: the columns of the terminal table, with the values that JSON
    has."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([name for column in table.columns for name in _names(column)])
    for row in table.records:
        writer.writerow([cell for column in table.columns for cell in _cells(column, row)])
    return out.getvalue()


def _names(column: Column[Any]) -> list[str]:
    name = column.key
    return [f"{name}_{end}" for end in column.ends] or [name]


def _cells(column: Column[Any], row: Any) -> Sequence[Any]:
    value = column.value(row)
    if column.ends:
        return [None] * len(column.ends) if value is None else ends_of(value)
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return [_no_formula(value) if isinstance(value, str) else value]


def _no_formula(text: str) -> str:
    """Return the text, prefixed with ``'`` where a spreadsheet would take the text for a
    formula."""
    return f"'{text}" if text.startswith(("=", "@", "\t", "\r")) else text
