"""What every evaluation does with what it found: files into --report, and JSON or tables."""

from __future__ import annotations

import json
from typing import Any

import click

from berth.pilot.documents import write_text
from lab.experiments.options import Options


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
