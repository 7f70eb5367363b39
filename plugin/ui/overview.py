"""The view *Overview*, the first page: is Berth on, what did it do, did it help, what is wrong."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flask import Blueprint, render_template, request

from berth.pilot.errors import BerthError
from berth.plugin.daemon.client import ask
from berth.plugin.doctor.examine import examine
from berth.plugin.findings import Finding
from berth.plugin.installed_site import Installation
from berth.plugin.report.of_overview import AGAIN, WeekFigures, overview_report, store_figures
from berth.plugin.ui.background import Background
from berth.plugin.ui.context import DAEMON_S, Context, context

view = Blueprint("overview", __name__)


def _link(key: str, value: str) -> str:
    return f"jobs?{key}={value}"


def _figures(key: tuple[Path | None, str | None]) -> WeekFigures:
    installation = Installation(*key)
    store = installation.reading()
    try:
        return store_figures(store, installation.needed_site(), _link)
    finally:
        store.close()


def _findings(site_file: Path | None) -> Sequence[Finding]:
    return list(examine(Installation(site_file).needed_site()))


FINDINGS: Background[Path | None, Sequence[Finding]] = Background(
    "the doctor", _findings, patience_s=0.2
)
"""What the doctor finds, by site file."""
FIGURES: Background[tuple[Path | None, str | None], WeekFigures] = Background(
    "reading the store", _figures, patience_s=0.2
)
"""What the store says, by site file and store."""


@view.route("/overview")
def overview() -> str:
    """Show the overview; each part that cannot be read shows its problem instead."""
    page = context()
    try:
        if page.viewer().only is not None:
            raise BerthError("figures of the whole site are for its administrators",
                             hint="your own jobs: Jobs")  # fmt: skip
        report = _report(page)
        waits = any(line.endswith(AGAIN) for part in report.parts for line in part.lines)
        return render_template(
            "overview.html", report=report, problem=None, made_s=_now(), waits=waits
        )
    except BerthError as error:
        return render_template("overview.html", report=None, problem=error, made_s=_now())


def _report(page: Context) -> Any:
    site, settings = page.site(), page.settings

    def findings() -> Sequence[Finding] | None:
        _needs_site(page)
        made = FINDINGS.newest(settings.site_file)
        return None if made is None else made.value

    def figures() -> WeekFigures | None:
        _needs_site(page)
        made = FIGURES.newest((settings.site_file, settings.store_url))
        return None if made is None else made.value

    def stats() -> Mapping[str, Any]:
        _needs_site(page)
        return ask(site.daemon.socket, {"v": 1, "op": "stats"}, timeout_s=DAEMON_S)

    return overview_report(
        site, findings=findings, figures=figures, stats=stats,
        findings_link=f"{request.script_root}/site",
    )  # fmt: skip


def _needs_site(page: Context) -> None:
    if page.is_demo:
        raise BerthError("the demo site has no cluster", hint="start with: berth ui --site FILE")


def _now() -> str:
    return time.strftime("%H:%M:%S %Z")
