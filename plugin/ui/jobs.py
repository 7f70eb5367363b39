"""The view *Jobs*: decisions, and why each job is where it is."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, abort, render_template, request, url_for

from berth.pilot.errors import BerthError, UsageError
from berth.plugin.cli.decisions import (
    as_text,
    decision_of_job,
    moment,
    places_cells,
    predicted_and_ran,
)
from berth.plugin.cli.outcomes import in_a_line
from berth.plugin.pictures.times import Row
from berth.plugin.store import DecisionRecord, OutcomeRecord, Store
from berth.plugin.ui.context import Context, context
from berth.plugin.ui.pictures import picture
from berth.plugin.ui.tables import Table
from berth.plugin.users.client import RemoteStore

view = Blueprint("jobs", __name__)
PAGE = 50
_HEADER = ("Decision", "Time", "User", "Workload", "Mode", "Action", "Code", "Chosen",
           "Predicted", "Ran")  # fmt: skip
_PLACES = ("Candidate", "Platform", "Time", "90 % interval", "Memory at most", "Basis", "From",
           "Why not")  # fmt: skip


@view.route("/jobs")
def jobs() -> str:
    """Decisions, newest first, a page at a time."""
    here = context()
    asked = {key: request.args.get(key, "").strip() for key in ("user", "code", "profile", "job")}
    table, following, problem = None, None, None
    try:
        store = _store(here)
        if asked["job"]:
            return _one(here, store, decision_of_job(store, asked["job"]))
        records = _page(here, store, asked)
        if len(records) > PAGE:
            beyond = urlencode({**asked, "before": records[PAGE - 1].id})
            following = f"{url_for('jobs.jobs')}?{beyond}"
        table = _table(store, records[:PAGE])
    except BerthError as error:
        problem = error
    return render_template(
        "jobs.html", table=table, asked=asked, following=following, problem=problem,
        alone=here.viewer().only is not None,
    )  # fmt: skip


@view.route("/jobs/<decision>")
def one(decision: str) -> str:
    """One decision explained."""
    here = context()
    try:
        return _one(here, _store(here), decision)
    except BerthError as error:
        return render_template("job.html", record=None, problem=error)


def _store(here: Context) -> Store | RemoteStore:
    store = here.store()
    if store is None:
        raise BerthError("the demo site has no jobs", hint="start with: berth ui --site FILE")
    return store


def _page(here: Context, store: Store | RemoteStore, asked: dict[str, str]) -> list[DecisionRecord]:
    only = here.viewer().only
    if only is not None and asked["user"] not in ("", only):
        raise UsageError("jobs of others are for administrators")
    before = request.args.get("before")
    last = None if before is None else store.decisions.get(before)
    if before is not None and last is None:
        raise UsageError("that page is gone: its decision was pruned", hint="begin anew: Jobs")
    return store.decisions.last(
        PAGE + 1,
        user=only or asked["user"] or None,
        code=asked["code"] or None,
        profile=asked["profile"] or None,
        before=last,
    )


def _table(store: Store | RemoteStore, records: list[DecisionRecord]) -> Table:
    ended = store.outcomes.of_decisions([record.id for record in records])
    rows = [
        (
            r.id, moment(r.time_s), r.user, r.profile or "-", r.mode, r.action, r.code,
            r.chosen or "-", *predicted_and_ran(r, ended.get(r.id, [])),
        )
        for r in records
    ]  # fmt: skip
    links = [url_for("jobs.one", decision=r.id) for r in records]
    return Table("Decisions, newest first", _HEADER, rows, links=links)


def _one(here: Context, store: Store | RemoteStore, decision: str) -> str:
    record = store.decisions.get(decision)
    if record is None or not here.viewer().may_see(record):
        abort(404, f"There is no decision {decision} that you may see.")
    rows: list[dict[str, Any]] = json.loads(record.ranked)
    outcomes = store.outcomes.of_decision(record.id)
    return render_template(
        "job.html",
        record=record,
        moment=moment(record.time_s),
        lines=[line for line in as_text(store, record, table=False).splitlines()[2:] if line],
        outcomes=[in_a_line(outcome) for outcome in outcomes],
        table=Table("Places that were looked at", _PLACES, places_cells(rows)) if rows else None,
        picture=_picture(rows, outcomes),
        problem=None,
    )


def _picture(rows: list[dict[str, Any]], outcomes: list[OutcomeRecord]) -> str | None:
    drawn = [
        Row(row["candidate"], tuple(row["runtime_s"]), bool(row.get("excluded")))
        for row in rows
        if row.get("runtime_s")
    ]
    took = [o.elapsed_s for o in outcomes if o.state == "completed" and o.elapsed_s]
    return picture(drawn, took_s=took[0] if took else None)
