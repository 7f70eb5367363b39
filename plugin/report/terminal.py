"""Reports and tables as text: readable on a terminal, in a log and in a mail.

On a terminal that is too narrow for a table, columns are left out or shortened, which is said below
the table; output to a pipe or a file has them all.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click

from berth.pilot.printable import printable
from berth.plugin.report.csv_tables import record as note_table
from berth.plugin.report.parts import Column, Part, Report, Table

APART = "-- below: priors, abstentions and places without code for them: not acted on --"
_LEAST_FIRST, _LEAST = 16, 5
"""Minimum widths of the first and of other shortened columns, in characters: ten columns fit 80."""


def as_text(content: Report | Part | Table[Any]) -> str:
    """Return a report, a section without its title, or a table as text."""
    match content:
        case Report():
            return report_text(content)
        case Part():
            return part_text(content)
        case _:
            return table_text(content)


def report_text(report: Report) -> str:
    """Return a report's sentences, facts and tables; pictures are for HTML."""
    lines = [printable(line) for line in (report.title, report.lead) if line]
    for part in report.parts:
        lines += [*([""] if lines else []), *([part.title] if part.title else []), *_lines(part)]
    return "\n".join(lines)


def part_text(part: Part) -> str:
    """Return one report section as text, without its title; a single table is shown without its
    caption."""
    return "\n".join(_lines(Part("", **{name: getattr(part, name) for name in _WITHOUT_TITLE})))


_WITHOUT_TITLE = tuple(name for name in Part.__slots__ if name != "title")


def _lines(part: Part) -> Iterator[str]:
    """Yield a report section's lines, indented where the section has a title."""
    space = "  " * bool(part.title)
    if part.problem is not None:
        yield f"{space}{printable(part.problem.message)}"
    yield from (f"{space}{printable(line)}" for line in part.lines)
    width = max((len(name) for name, _ in part.facts), default=0)
    yield from (f"{space}{name:<{width}} {printable(value)}" for name, value in part.facts)
    has_captions = bool(part.title) or len(part.tables) > 1
    for index, table in enumerate(part.tables):
        if not part.title and (index or part.lines or part.facts):
            yield ""
        if has_captions:
            yield f"{space}{table.caption}:"
        indent = len(space) + 2 * has_captions
        yield table_text(table, indent=indent, if_empty="none")
    yield from (f"{space}  {printable(line)}" for line in part.verbatim.splitlines())
    if not part.title and part.tables and part.notes:
        yield ""
    yield from (f"{space}{printable(note)}" for note in part.notes)


def table_text(table: Table[Any], *, indent: int = 0, if_empty: str | None = None) -> str:
    """Return a table as aligned text with its titles in capitals; doubtful rows follow a separating
    line.

    ``if_empty``: text for a table that has neither records nor a sentence of its own; None: the
    titles alone.
    """
    note_table(table)
    no_records = table.if_empty or if_empty
    if no_records is not None and not table.records:
        return " " * indent + no_records
    doubtful = [index for index in range(len(table.records)) if table.is_doubtful(index)]
    apart = doubtful[0] if doubtful else None
    columns = [c for c in table.columns if c.for_people and not c.is_wide]
    shown = table.records[: table.most]
    cells = [
        [_capitals(column.title), *(printable(column.cell(record)) for record in shown)]
        for column in columns
    ]
    widths = [max(map(len, texts)) for texts in cells]
    left_out: list[Column[Any]] = []
    if sys.stdout.isatty():
        places, widths = fitted(columns, widths, shutil.get_terminal_size().columns - indent)
        left_out = [column for place, column in enumerate(columns) if place not in places]
        cells = [cells[place] for place in places]
    lines = ["  ".join(map(_cell, line, widths)).rstrip() for line in zip(*cells, strict=True)]
    if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        lines[0] = click.style(lines[0], bold=True)
    if apart is not None:
        lines.insert(1 + apart, APART)
    if left := len(table.records) - len(shown):
        lines.append(f"... and {left} more")
    if left_out:
        lines.append(f"(left out: {', '.join(column.key for column in left_out)}; --csv has all)")
    return "\n".join(" " * indent + line for line in lines)


def fitted(
    columns: Sequence[Column[Any]], widths: Sequence[int], most: int
) -> tuple[list[int], list[int]]:
    """Return the columns that fit into ``most`` characters, by index, and their widths.

    Where not all fit, those that are not in a brief table are left out; then the widest are
    shortened; then those on the right are left out.
    """
    places = list(range(len(columns)))
    if _joined(widths) > most and any(column.in_brief for column in columns):
        places = [place for place in places if columns[place].in_brief]
    fitting = [min(widths[place], max(most, _LEAST_FIRST)) for place in places]
    least = [min(w, _LEAST if n else _LEAST_FIRST) for n, w in enumerate(fitting)]
    while len(least) > 1 and _joined(least) > most:
        for items in (places, fitting, least):
            items.pop()
    while _joined(fitting) > most:
        spare = [place for place, w in enumerate(fitting) if w > least[place]]
        if not spare:
            break
        fitting[max(spare, key=fitting.__getitem__)] -= 1
    return places, fitting


def _joined(widths: Sequence[int]) -> int:
    """Return the width of columns that are two spaces apart."""
    return sum(widths) + 2 * (len(widths) - 1)


def _capitals(title: str) -> str:
    """Return a title in capitals; a title that begins with a small letter is a name and is returned
    unchanged."""
    return title if title[:1].islower() else title.upper()


def _cell(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"
