"""Reports and tables as text: readable on a terminal, in a log and in a mail.

On a terminal too narrow for them, the widest columns are shortened; a pipe and a file get all.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

import click

from berth.plugin.report.csv_tables import record
from berth.plugin.report.parts import Part, Report, Table

APART = "-- below: priors, abstentions and places without code for them: not acted on --"
MEMORY_HEADER = ("HOST MEMORY <=", "GPU MEMORY <=")
"""Titles of the upper ends of both memories."""
_LEAST = 8
"""Characters that a column keeps."""


def report_text(report: Report) -> str:
    """Return sentences, facts and tables; pictures are for HTML."""
    lines = [report.title] + ([report.lead] if report.lead else [])
    for part in report.parts:
        lines += ["", *([part.title] if part.title else []), *part_lines(part)]
    return "\n".join(lines)


def part_lines(part: Part, *, indent: int = 2) -> list[str]:
    """Return the lines of one part, without its title."""
    space = " " * indent
    lines = [] if part.problem is None else [f"{space}{part.problem.message}"]
    lines += [f"{space}{line}" for line in part.lines]
    width = max((len(name) for name, _ in part.facts), default=0)
    lines += [f"{space}{name:<{width}} {value}" for name, value in part.facts]
    for table in part.tables:
        lines.append(f"{space}{table.caption}:")
        lines.append(table_text(table, indent=indent + 2) if table.rows else f"{space}  none")
    lines += [f"{space}  {line}" for line in part.verbatim.splitlines()]
    return lines


def table_text(table: Table, *, indent: int = 0) -> str:
    """Return a table under its titles in capitals."""
    return columns([title.upper() for title in table.header], table.rows, indent=indent)


def columns(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    indent: int = 2,
    first: int | None = None,
) -> str:
    """Return a table with a header line; columns are two spaces apart, lines end without space.

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


def fitted(widths: Sequence[int], most: int) -> list[int]:
    """Return widths of columns that fit side by side, the widest made narrower, as far as they
    can."""
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


def _cell(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"
