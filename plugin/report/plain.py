"""A report as text for a terminal, and as plain data."""

from __future__ import annotations

from typing import Any

from berth.plugin.cli.output.columns import columns
from berth.plugin.report.parts import Part, Report, Table

REPORT_SCHEMA = "berth.report/1"


def text(report: Report) -> str:
    """Sentences and tables; pictures are for HTML."""
    lines = [report.title] + ([report.lead] if report.lead else [])
    for one in report.parts:
        lines += ["", one.title, *_part(one)]
    return "\n".join(lines)


def as_json(report: Report) -> dict[str, Any]:
    """Plain data; of pictures, their words."""
    return {
        "schema": REPORT_SCHEMA,
        "title": report.title,
        "lead": report.lead,
        "parts": [
            {
                "title": one.title,
                "problem": None if one.problem is None else one.problem.message,
                "lines": list(one.lines),
                "pictures": [picture.words for picture in one.pictures],
                "tables": [_table(table) for table in one.tables],
                "verbatim": one.verbatim,
            }
            for one in report.parts
        ],
    }


def _part(one: Part) -> list[str]:
    lines = [] if one.problem is None else [f"  {one.problem.message}"]
    lines += [f"  {line}" for line in one.lines]
    for table in one.tables:
        lines.append(f"  {table.caption}:")
        lines.append(columns(table.header, table.rows, indent=4) if table.rows else "    none")
    lines += [f"    {line}" for line in one.verbatim.splitlines()]
    return lines


def _table(one: Table) -> dict[str, Any]:
    return {
        "caption": one.caption,
        "header": list(one.header),
        "rows": [list(row) for row in one.rows],
        "doubtful": [one.is_doubtful(n) for n in range(len(one.rows))],
    }
