"""What every evaluation does with what it found: files into --report, and JSON or tables."""

from __future__ import annotations

import json
from typing import Any

import click

from berth.pilot.documents import write_text
from lab.experiments.options import Options
from lab.ground.report import Report


def show(
    options: Options,
    document: Any,
    tables: str,
    *,
    file: str | None = "evaluation.json",
    page: bool = False,
) -> None:
    """Print ``document`` as JSON, or ``tables``.

    With --report, write ``document`` there as ``file`` (None: the task wrote its own) and, where
    ``page``, the tables as ``report.md``.
    """
    text = json.dumps(document, indent=1)
    if options.report is not None and file is not None:
        write_text(options.report / file, text + "\n")
        if page:
            write_text(options.report / "report.md", f"```\n{tables}\n```\n")
    click.echo(text if options.as_json else tables)


def show_report(options: Options, report: Report, name: str = "evaluation") -> None:
    """Print a report as JSON or as tables; with --report, write it there under ``name``."""
    if options.report is not None:
        report.write(options.report, name)
    click.echo(json.dumps(report.as_dict(), indent=1) if options.as_json else report.text())
