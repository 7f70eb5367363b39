"""Reports and tables as text: readable on a terminal, in a log and in a mail.

On a narrow terminal the widest columns are shortened; output to a pipe or a file is not shortened.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click

from berth.plugin.report.csv_tables import record as note_table
from berth.plugin.report.parts import Part, Report, Table

APART = "-- below: priors, abstentions and places without code for them: not acted on --"
_LEAST = 8
"""Minimum width of a shortened column, in characters."""


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
    lines = [line for line in (report.title, report.lead) if line]
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
        yield f"{space}{part.problem.message}"
    yield from (f"{space}{line}" for line in part.lines)
    width = max((len(name) for name, _ in part.facts), default=0)
    yield from (f"{space}{name:<{width}} {value}" for name, value in part.facts)
    has_captions = bool(part.title) or len(part.tables) > 1
    for index, table in enumerate(part.tables):
        if not part.title and (index or part.lines or part.facts):
            yield ""
        if has_captions:
            yield f"{space}{table.caption}:"
        indent = len(space) + 2 * has_captions
        yield table_text(table, indent=indent, if_empty="none")
    yield from (f"{space}  {line}" for line in part.verbatim.splitlines())
    if not part.title and part.tables and part.notes:
        yield ""
    yield from (f"{space}{note}" for note in part.notes)


def table_text(table: Table[Any], *, indent: int = 0, if_empty: str | None = None) -> str:
    """Return a table as aligned text with its titles in capitals; doubtful rows follow a
    separating line.

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
    rows = [[column.cell(record) for column in columns] for record in shown]
    text = _aligned([_capitals(column.title) for column in columns], rows, indent, apart)
    left = len(table.records) - len(shown)
    return f"{text}\n{' ' * indent}... and {left} more" if left else text


def _aligned(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    indent: int,
    apart: int | None = None,
) -> str:
    """Return columns aligned two spaces apart, without trailing spaces; ``apart``: index of the
    row before which the line ``APART`` is inserted."""
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    if sys.stdout.isatty():
        widths = fitted(widths, shutil.get_terminal_size().columns - indent)
    texts = ["  ".join(map(_cell, line, widths)).rstrip() for line in lines]
    if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        texts[0] = click.style(texts[0], bold=True)
    if apart is not None:
        texts.insert(1 + apart, APART)
    return "\n".join(" " * indent + text for text in texts)


def fitted(widths: Sequence[int], most: int) -> list[int]:
    """Return column widths that fit into ``most`` characters: the widest columns are shortened,
    none below ``_LEAST``."""
    fitting = list(widths)
    over = sum(fitting) + 2 * (len(fitting) - 1) - most
    while over > 0:
        widest = max(range(len(fitting)), key=fitting.__getitem__)
        if fitting[widest] <= _LEAST:
            break
        second = max([w for i, w in enumerate(fitting) if i != widest], default=_LEAST)
        less = max(1, min(over, fitting[widest] - max(second, _LEAST)))
        fitting[widest] -= less
        over -= less
    return fitting


def _capitals(title: str) -> str:
    """Return a title in capitals; a title that begins with a small letter is a name and is
    returned unchanged."""
    return title if title[:1].islower() else title.upper()


def _cell(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"
