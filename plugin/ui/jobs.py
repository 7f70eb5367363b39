"""The view *Jobs*: decisions, why each job is where it is, and a forecast of the queue.

The forecast is a live replay, made in the background.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, abort, render_template, request, url_for
from werkzeug.wrappers import Response

from berth.pilot.errors import BerthError, UsageError
from berth.pilot.usage.record import Usage
from berth.plugin.history.disagreements import usages_of
from berth.plugin.installed_site import Installation
from berth.plugin.replay.queue_replay import Live, live_replays
from berth.plugin.report.csv_tables import table_csv
from berth.plugin.report.known_job import KnownJob, decision_of_job, known_job
from berth.plugin.report.of_decision import DecidedJob, decided, decided_one, listed_jobs
from berth.plugin.report.of_job import job_report, undecided_report
from berth.plugin.report.of_queue import queue_report
from berth.plugin.report.parts import Report
from berth.plugin.scheduler import PresentJob
from berth.plugin.scheduler.registry import open_scheduler
from berth.plugin.store import DecisionRecord, Store
from berth.plugin.ui.background import Background
from berth.plugin.ui.context import Context, context
from berth.plugin.users.client import RemoteStore

view = Blueprint("jobs", __name__)
PAGE = 50
MOST_CSV = 10_000
"""Most jobs in one CSV file."""
_DAY = timedelta(days=1)
_OF_ALL = ("action", "partition", "since", "until")
"""Filters that the daemon does not know, for administrators."""
_FILTERS = ("user", "code", "workload", *_OF_ALL, "job")


def _live(key: tuple[Path | None, str | None]) -> Live:
    installation = Installation(*key)
    return live_replays(installation.site(), installation.view_if_any())


def _present(site_file: Path | None) -> Mapping[str, PresentJob]:
    present = open_scheduler(Installation(site_file).needed_site()).present_jobs()
    return {job.decision: job for job in present if job.decision is not None}


_jobs_now: Background[Path | None, Mapping[str, PresentJob]] = Background(
    "asking the scheduler", _present, fresh_s=10.0, patience_s=0.5
)
_replays: Background[tuple[Path | None, str | None], Live] = Background(
    "the replay of the queue", _live
)


def _asked_for() -> dict[str, str]:
    return {key: request.args.get(key, "").strip() for key in _FILTERS}


def _listed(
    store: Store | RemoteStore, records: Sequence[DecisionRecord], live: Mapping[str, PresentJob]
) -> list[DecidedJob]:
    return [replace(each, now=live.get(each.record.id)) for each in decided(store, records)]


@view.route("/jobs.csv")
def as_csv() -> Response:
    """Return the newest jobs that the filters let through as CSV, at most ``MOST_CSV``."""
    page = context()
    store = page.a_store()
    shown = _listed(store, _page(page, store, _asked_for(), MOST_CSV), _live_jobs(page)[0])
    return Response(table_csv(listed_jobs(shown, links=())), mimetype="text/csv",
                    headers={"Content-Disposition": "attachment; filename=jobs.csv"})  # fmt: skip


@view.route("/jobs")
def jobs() -> str:
    """Show the page of decisions, newest first."""
    page = context()
    asked = _asked_for()
    table, following, problem, states = None, None, None, ""
    try:
        store = page.a_store()
        if asked["job"]:
            return _job(page, store, asked["job"])
        records = _page(page, store, asked, PAGE + 1)
        if len(records) > PAGE:
            beyond = urlencode({**asked, "before": records[PAGE - 1].id})
            following = f"{url_for('jobs.jobs')}?{beyond}"
        live, states = _live_jobs(page)
        shown = _listed(store, records[:PAGE], live)
        links = [url_for("jobs.one", decision=one.record.id) for one in shown]
        table = listed_jobs(shown, links=links)
    except BerthError as error:
        problem = error
    return render_template(
        "jobs.html", table=table, asked=asked, following=following, problem=problem,
        alone=page.viewer().only is not None, states=states,
        csv=f"{url_for('jobs.as_csv')}?{urlencode(asked)}",
    )  # fmt: skip


@view.route("/jobs/<decision>")
def one(decision: str) -> str:
    """Show the page that explains one decision."""
    page = context()
    try:
        store = page.a_store()
        record = _seen(page, store.decisions.get(decision), f"decision {decision}")
        return _shown(_report(store, record, _why(page, store, record)))
    except BerthError as error:
        return render_template("job.html", report=None, problem=error)


@view.route("/queue")
def queue() -> str:
    """Show the page of the waiting jobs' expected starts, from a live replay."""
    page = context()
    report, problem, ready = None, None, True
    try:
        if page.is_demo:
            raise BerthError("the demo site has no queue", hint="start with: berth ui --site FILE")
        settings = page.settings
        made = _replays.newest((settings.site_file, settings.store_url))
        ready = made is not None and made.value is not None
        if made is not None and made.value is not None:
            report = queue_report(made.value, page.viewer().only)
    except BerthError as error:
        problem = error
    return render_template("queue.html", report=report, problem=problem, ready=ready)


def _live_jobs(page: Context) -> tuple[Mapping[str, PresentJob], str]:
    """Return the jobs of the scheduler by decision, and a sentence on when it told them; no jobs
    where it has not answered."""
    if page.is_demo:
        return {}, ""
    try:
        made = _jobs_now.newest(page.settings.site_file)
    except BerthError as error:
        return {}, f"The scheduler does not tell the jobs' states: {error.message}."
    if made is None or made.value is None:
        return {}, "The scheduler has not told the jobs' states yet: look again in some seconds."
    at = time.strftime("%H:%M:%S %Z", time.localtime(made.unix_s))
    return made.value, f"States as the scheduler told them at {at}."


def _job(page: Context, store: Store | RemoteStore, job: str) -> str:
    """Show the page of the job with this scheduler id. Raises BerthError; responds 404 if the
    viewer may not see the job."""
    if page.viewer().only is not None:  # check the owner before reading more
        try:
            decision = store.decisions.get(decision_of_job(store, job))
        except UsageError:  # the reply must not tell another user's job from none
            decision = None
        record = _seen(page, decision, f"job {job}")
        return _shown(_report(store, record, _asked(page, store, job)))
    known = known_job(store, job, page.settings.site_file)
    if known.decision is None:
        return _shown(undecided_report(known))
    return _shown(_report(store, known.decision, known))


def _report(store: Store | RemoteStore, record: DecisionRecord, known: KnownJob | None) -> Report:
    decision = decided_one(store, record)
    job = decision.outcomes[0].job_id if decision.outcomes else None
    usages: Sequence[Usage] = ()
    if job is not None and isinstance(store, Store):
        usages = usages_of(store, decision.outcomes[0].cluster, job)
    return job_report(decision, known, usages=usages)


def _shown(report: Report) -> str:
    return render_template("job.html", report=report, problem=None)


def _seen(page: Context, record: DecisionRecord | None, name: str) -> DecisionRecord:
    if record is None or not page.viewer().may_see(record):
        abort(404, f"There is no {name} that you may see.")
    return record


def _why(page: Context, store: Store | RemoteStore, record: DecisionRecord) -> KnownJob | None:
    """Return what the store and the scheduler know of the decision's job; None: neither knows a job
    of this decision."""
    ended = store.outcomes.of_decision(record.id)
    if ended:
        return _asked(page, store, ended[0].job_id)
    job = _live_jobs(page)[0].get(record.id)
    return None if job is None else _asked(page, store, job.job_id)


def _asked(page: Context, store: Store | RemoteStore, job: str) -> KnownJob | None:
    try:
        return known_job(store, job, page.settings.site_file)
    except BerthError:
        return None


def _narrowed(asked: Mapping[str, str]) -> dict[str, Any]:
    """Return the filters that the daemon does not know. Raises UsageError for a wrong date."""
    narrowed: dict[str, Any] = {}
    for key in ("action", "partition"):
        if asked[key]:
            narrowed[key] = asked[key]
    for key, ends in (("since", False), ("until", True)):
        if asked[key]:
            try:
                day = datetime.strptime(asked[key], "%Y-%m-%d")
            except ValueError:
                raise UsageError(f"{asked[key]!r} is no date such as 2026-11-29") from None
            narrowed[f"{key}_s"] = (day + _DAY if ends else day).timestamp()
    return narrowed


def _page(
    page: Context, store: Store | RemoteStore, asked: Mapping[str, str], count: int
) -> list[DecisionRecord]:
    only = page.viewer().only
    if only is not None and asked["user"] not in ("", only):
        raise UsageError("jobs of others are for administrators")
    narrowed = _narrowed(asked)
    if narrowed and not isinstance(store, Store):
        raise UsageError("jobs by answer, partition or date are for administrators")
    before = request.args.get("before")
    last = None if before is None else store.decisions.get(before)
    if before is not None and last is None:
        raise UsageError("that page is gone: its decision was pruned", hint="begin anew: Jobs")
    return store.decisions.last(
        count,
        user=only or asked["user"] or None,
        code=asked["code"] or None,
        workload=asked["workload"] or None,
        before=last,
        **narrowed,
    )
