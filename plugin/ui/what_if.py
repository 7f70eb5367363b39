"""The view *What if*: replays of past jobs that the page runs, and reports written before.

A question needs ``--allow-actions``: it takes processor time, and its answer names users.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from datetime import datetime
from html import unescape
from pathlib import Path

from flask import Blueprint, Response, abort, redirect, render_template, request, send_file, url_for
from werkzeug.wrappers import Response as AnyResponse
from wtforms import FileField, FloatField, Form, IntegerField, SelectField
from wtforms.fields.choices import SelectChoice
from wtforms.validators import NumberRange, Optional

from berth.pilot.errors import BerthError, UsageError
from berth.plugin.report.parts import text_table
from berth.plugin.site.load import DEMO_FILE
from berth.plugin.ui.context import Context, context
from berth.policies import OBJECTIVES

view = Blueprint("what_if", __name__)
_FRAMED = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; sandbox"
)
"""Reports contain their own styles and pictures; the headers let no script in them run."""
MOST = 200
_HEAD_BYTES = 8_192
_TITLE = re.compile(r"<title>([^<]*)</title>")
_KNOWN = ("outcomes", "forecasts", "history")


class QuestionForm(Form):
    """The form of a question: which past jobs, and what would have been different."""

    file = FileField("Past jobs: a file")
    days = FloatField(
        "or days of accounting", [Optional(), NumberRange(min=0.1, max=3_660)], default=30,
    )  # fmt: skip
    policy = SelectField("Berth places jobs by", [Optional()], validate_choice=False)
    truth = SelectField(
        "Times elsewhere from",
        choices=[
            SelectChoice("", "columns of the file"),
            SelectChoice("known", "outcomes, predictions, equal jobs"),
        ],
    )
    backfill = SelectField(
        "Scheduler",
        choices=[
            SelectChoice("easy", "EASY backfill"),
            SelectChoice("replanned", "as Slurm's backfill"),
            SelectChoice("conservative", "conservative backfill"),
            SelectChoice("fcfs", "first come, first served"),
        ],
    )
    kind = SelectField("More or fewer nodes", [Optional()], validate_choice=False)
    nodes = IntegerField(
        "Nodes", [Optional(), NumberRange(min=-10_000, max=10_000)],
        render_kw={"placeholder": "4 or -2"},
    )  # fmt: skip

    def words(self, page: Context, folder: Path) -> list[str]:
        """Return the options of ``berth replay``; a sent file is put into ``folder``.

        Raises UsageError for a question that names no jobs, or nothing that would be different.
        """
        if not self.policy.data and not (self.kind.data and self.nodes.data):
            raise UsageError(
                "what would have been different?", hint="choose a policy, or nodes and how many"
            )
        words = ["--site", str(page.settings.site_file or DEMO_FILE)]
        if page.settings.store_url is not None:
            words += ["--store", page.settings.store_url]
        sent = request.files.get("file")
        if sent is not None and sent.filename:
            name = re.sub(r"[^A-Za-z0-9._]", "_", Path(sent.filename).name)[-100:]
            path = folder / f"jobs-{name}"
            sent.save(path)
            words.insert(0, str(path))
        elif page.is_demo:
            raise UsageError("the demo site has no past jobs", hint="send a file of them")
        elif self.days.data is None:
            raise UsageError("which past jobs?", hint="send a file, or say how many days")
        else:
            words += ["--accounting", "--days", f"{self.days.data:g}"]
        words += ["--backfill", self.backfill.data]
        if self.policy.data:
            OBJECTIVES.load(self.policy.data)
            words += ["--policy", self.policy.data]
            if self.truth.data:
                words += [word for source in _KNOWN for word in ("--truth", source)]
        if self.kind.data and self.nodes.data:
            words += ["--set", f"nodes.{self.kind.data}.count={self.nodes.data:+d}"]
        return words


@view.route("/what-if", methods=["GET", "POST"])
def reports() -> str | AnyResponse:
    """Show the form of a question, how far the last one is, and the reports, newest first.

    Only for administrators, as reports name users.
    """
    page = context()
    problem: BerthError | None = None
    if page.viewer().only is not None:
        problem = BerthError("reports of the whole site are for its administrators")
        return render_template("what_if.html", table=None, form=None, last=None, problem=problem)
    form = QuestionForm(request.values)
    try:
        form.policy.choices = [SelectChoice("", "none: as it was"), *OBJECTIVES.names()]
        kinds = [candidate.name for candidate in page.site().candidates]
        form.kind.choices = [SelectChoice("", "no change"), *kinds]
        if request.method == "POST":
            _allowed(page)
            if form.validate():
                _ask(page, form)
                return redirect(url_for("what_if.reports"), 303)
    except BerthError as error:
        problem = error
    last = page.questions.last
    return render_template(
        "what_if.html", table=_table(page), form=form, last=last, problem=problem,
        may_ask=page.settings.actions,
    )  # fmt: skip


def _ask(page: Context, form: QuestionForm) -> None:
    folder = page.questions.room()
    try:
        page.questions.ask(form.words(page, folder), folder)
    except BerthError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@view.route("/what-if/cancel", methods=["POST"])
def cancel() -> AnyResponse:
    """End the question that is being answered."""
    page = context()
    if page.viewer().only is not None:
        abort(403, "Questions are for administrators.")
    _allowed(page)
    page.questions.cancel()
    return redirect(url_for("what_if.reports"), 303)


def _allowed(page: Context) -> None:
    if not page.settings.actions:
        abort(403, "This page only reads: start it with --allow-actions.")


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


def _table(page: Context) -> object:
    paths = _reports(page)
    asked = {question.report: question.summary for question in page.questions.answered}
    return text_table(
        "Reports, newest first",
        ("Report", "Of", "Made"),
        [(name, asked.get(path) or _title(path), _made(path)) for name, path in paths.items()],
        links=[url_for("what_if.report", name=name) for name in paths],
    )


def _path(name: str) -> Path:
    if context().viewer().only is not None:
        abort(403, "Reports of the whole site are for its administrators.")
    paths_by_name = _reports(context())
    if name not in paths_by_name:
        abort(404, f"There is no report {name}.")
    return paths_by_name[name]


def _reports(page: Context) -> dict[str, Path]:
    """Return the answers of this page, then the reports in the folder and its subfolders, by name;
    newest first."""
    answers = {question.report.name: question.report for question in page.questions.answered}
    folder = page.settings.reports
    if folder is None or not folder.is_dir():
        return answers
    paths = [p for p in (*folder.glob("*.html"), *folder.glob("*/*.html")) if not p.is_symlink()]
    newest: Sequence[Path] = sorted(paths, key=lambda p: -p.stat().st_mtime)[:MOST]
    return answers | {f"{path.relative_to(folder)}": path for path in newest}


def _title(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return "-"
    match = _TITLE.search(head)
    return "-" if match is None else " ".join(unescape(match[1]).split())[:200]


def _made(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime).strftime("%Y-%m-%d %H:%M")
