"""The view *Site*: the installation's checks, and the predictions' accuracy and gain."""

from __future__ import annotations

from collections.abc import Sequence

from flask import Blueprint, render_template

from berth.pilot.errors import BerthError
from berth.plugin.findings import Finding
from berth.plugin.report.of_site import site_report
from berth.plugin.ui.context import context
from berth.plugin.ui.overview import FINDINGS

view = Blueprint("site", __name__)


@view.route("/site")
def site() -> str:
    """Show the site's report; a part that cannot be read shows its problem instead."""
    page = context()
    report, problem = None, None
    try:
        known = page.site()
        findings: Sequence[Finding] = ()
        if not page.is_demo and page.viewer().only is None:
            made = FINDINGS.newest(page.settings.site_file)
            findings = () if made is None else made.value or ()
        report = site_report(known, page.whole_store, findings)
    except BerthError as error:
        problem = error
    return render_template("site.html", report=report, problem=problem)
