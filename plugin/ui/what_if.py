"""The view *What if*: reports of tunes and replays, each a self-contained HTML page."""

from __future__ import annotations

import re
from datetime import datetime
from html import unescape
from pathlib import Path

from flask import Blueprint, Response, abort, render_template, send_file, url_for

from berth.pilot.errors import BerthError
from berth.plugin.report.parts import text_table
from berth.plugin.ui.context import context

view = Blueprint("what_if", __name__)
_FRAMED = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; sandbox"
)
"""Reports contain their own styles and pictures; the headers let no script in them run."""
MOST = 200
_HEAD_BYTES = 8_192
_TITLE = re.compile(r"<title>([^<]*)</title>")


@view.route("/what-if")
def reports() -> str:
    """List the reports of ``--reports``, newest first: only for administrators, as reports name
    users."""
    page = context()
    if page.viewer().only is not None:
        problem = BerthError("reports of the whole site are for its administrators")
        return render_template("what_if.html", table=None, folder=None, problem=problem)
    paths = _reports(page.settings.reports)
    table = text_table(
        "Reports, newest first",
        ("Report", "Of", "Made"),
        [(_name(path), _title(path), _made(path)) for path in paths],
        links=[url_for("what_if.report", name=_name(path)) for path in paths],
    )
    return render_template("what_if.html", table=table, folder=page.settings.reports, problem=None)


@view.route("/what-if/<path:name>")
def report(name: str) -> str:
    """Show the page with one report in a frame."""
    _path(name)
    return render_template("report.html", name=name)


@view.route("/what-if-page/<path:name>")
def page(name: str) -> Response:
    """Return the report's HTML file, for the frame."""
    response = send_file(_path(name), mimetype="text/html")
    response.headers["Content-Security-Policy"] = _FRAMED
    return response


def _path(name: str) -> Path:
    if context().viewer().only is not None:
        abort(403, "Reports of the whole site are for its administrators.")
    paths_by_name = {_name(path): path for path in _reports(context().settings.reports)}
    if name not in paths_by_name:
        abort(404, f"There is no report {name}.")
    return paths_by_name[name]


def _reports(folder: Path | None) -> list[Path]:
    """Return the reports in the folder and its subfolders, newest first."""
    if folder is None or not folder.is_dir():
        return []
    paths = [p for p in (*folder.glob("*.html"), *folder.glob("*/*.html")) if not p.is_symlink()]
    return sorted(paths, key=lambda p: -p.stat().st_mtime)[:MOST]


def _title(path: Path) -> str:
    """Return the report's title; a hyphen where it has none."""
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return "-"
    match = _TITLE.search(head)
    return "-" if match is None else " ".join(unescape(match[1]).split())[:200]


def _name(path: Path) -> str:
    root = context().settings.reports
    return str(path.relative_to(root)) if root is not None else path.name


def _made(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime).strftime("%Y-%m-%d %H:%M")
