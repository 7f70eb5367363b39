"""Converts a report to plain data for JSON."""

from __future__ import annotations

from typing import Any

from berth.plugin.report.parts import Part, Report, Table

REPORT_SCHEMA = "berth.report/1"


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as plain data; a picture is represented by its description in words."""
    return {
        "schema": REPORT_SCHEMA,
        "title": report.title,
        "lead": report.lead,
        "parts": [_part(part) for part in report.parts],
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "title": part.title,
        "problem": None if part.problem is None else part.problem.message,
        "lines": [*part.lines, *part.notes],
        "facts": dict(part.facts),
        "pictures": [picture.words for picture in part.pictures],
        "tables": [_table(table) for table in part.tables],
        "verbatim": part.verbatim,
    }


def _table(table: Table[Any]) -> dict[str, Any]:
    return {
        "caption": table.caption,
        "columns": [
            {"key": column.key, "title": column.title, "unit": column.unit}
            for column in table.columns
        ],
        "rows": table.data(),
        "doubtful": [table.is_doubtful(index) for index in range(len(table.records))],
    }
