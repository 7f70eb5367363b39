"""The view *Site*: the installation's checks, and the predictions' accuracy and gain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flask import Blueprint, render_template

from berth.pilot.errors import BerthError
from berth.plugin.findings import Finding
from berth.plugin.installed_site import Installation
from berth.plugin.report.of_overview import AGAIN
from berth.plugin.report.of_site import figure_parts, report_of, setup_parts
from berth.plugin.report.parts import Part
from berth.plugin.ui.background import Background
from berth.plugin.ui.context import Context, context
from berth.plugin.ui.overview import FINDINGS

view = Blueprint("site", __name__)


def _figures(key: tuple[Path | None, str | None]) -> Sequence[Part]:
    installation = Installation(*key)
    store = installation.reading()
    try:
        return figure_parts(installation.needed_site(), lambda: store)
    finally:
        store.close()


FIGURES: Background[tuple[Path | None, str | None], Sequence[Part]] = Background(
    "reading the store", _figures, fresh_s=300.0, patience_s=0.4
)
"""Figures of the last 30 days, by site file and store: they take seconds at a large site."""


@view.route("/site")
def site() -> str:
    """Show the site's report; a part that cannot be read shows its problem instead."""
    page = context()
    report, problem, waits = None, None, False
    try:
        known = page.site()
        findings: Sequence[Finding] = ()
        if not page.is_demo and page.viewer().only is None:
            made = FINDINGS.newest(page.settings.site_file)
            findings = () if made is None else made.value or ()
        figures = _known_figures(page)
        waits = figures is None
        report = report_of(known, [
            *setup_parts(known, findings),
            *(figures or [Part("What was decided", [f"The store is being read: {AGAIN}"])]),
        ])  # fmt: skip
    except BerthError as error:
        problem = error
    return render_template("site.html", report=report, problem=problem, waits=waits)


def _known_figures(page: Context) -> Sequence[Part] | None:
    """Return the sections with figures, or one that says why there are none; None: the first are
    being made."""
    try:
        page.whole_store()
        made = FIGURES.newest((page.settings.site_file, page.settings.store_url))
    except BerthError as error:
        return [Part("What was decided", problem=error)]
    return None if made is None else made.value
