"""The view *Site*: the installation's checks, and the predictions' accuracy and gain."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from flask import Blueprint, render_template

from berth.pilot.errors import BerthError
from berth.plugin.doctor.examine import examine
from berth.plugin.doctor.findings import Finding
from berth.plugin.report.of_site import site_report
from berth.plugin.site import Site
from berth.plugin.ui.context import context

view = Blueprint("site", __name__)
_FRESH_S = 60.0
"""Seconds for which findings are reused, as the checks query scheduler and daemon."""


class _Examined:
    """Cache of the newest findings about a site file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: tuple[float, str, list[Finding]] | None = None

    def of(self, site: Site) -> list[Finding]:
        """Return the findings of a site, at most ``_FRESH_S`` seconds old."""
        with self._lock:
            known, now_s = self._found, time.monotonic()
            if known is None or known[1] != site.digest or now_s - known[0] > _FRESH_S:
                known = self._found = (now_s, site.digest, list(examine(site)))
            return known[2]


_examined = _Examined()


@view.route("/site")
def site() -> str:
    """Show the site's report; a part that cannot be read shows its problem instead."""
    page = context()
    report, problem = None, None
    try:
        known = page.site()
        findings: Sequence[Finding] = ()
        if not page.is_demo and page.viewer().only is None:
            findings = _examined.of(known)
        report = site_report(known, page.whole_store, findings)
    except BerthError as error:
        problem = error
    return render_template("site.html", report=report, problem=problem)
