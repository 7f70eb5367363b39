"""The view *Actions* (``--allow-actions``): the few settings that an administrator may change.

Each action must be confirmed and is logged to standard error. No action submits, moves or ends a
job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from flask import Blueprint, abort, current_app, redirect, render_template, request, url_for
from itsdangerous import BadSignature, URLSafeTimedSerializer
from werkzeug.wrappers import Response

from berth.pilot.errors import BerthError, UsageError
from berth.plugin.daemon.client import ask
from berth.plugin.forecasting import platforms_for, reference_of
from berth.plugin.learning.learner import Learner
from berth.plugin.report.of_store import learning_sentences
from berth.plugin.site.edit import edit
from berth.plugin.ui.context import DAEMON_S, Context, context
from berth.plugin.workloads.filing import refresh
from berth.policies.values import Mode

view = Blueprint("actions", __name__)
log = logging.getLogger("berth.ui.audit")
_CONFIRM_S = 300
"""Seconds within which an action must be confirmed."""
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class PageAction:
    """A change that an administrator can make on the web page."""

    title: str
    question: str
    """Sentence on what the action does; ``{target}`` is replaced by the action's target."""
    label: str
    """Label of the target's input field; empty: the action has no target."""
    run: Callable[[Context, str], str]
    """Performs the action on a target, and returns a sentence on the result. Raises BerthError."""
    choices: Callable[[Context], list[str]] | None = None
    style: str = "secondary"
    """Bootstrap's name of the button's colour."""


@view.route("/actions")
def actions() -> str:
    """Show the page of available actions, with the result of the last one."""
    page = _allowed()
    problem: BerthError | None = None
    offered: dict[str, list[str]] = {}
    state: list[tuple[str, str]] = []
    shown = dict(ACTIONS)
    try:
        state = _state(page)
        if not page.is_demo:
            shown.pop("stop" if page.site().daemon.kill_switch.exists() else "go-on")
        for name, action in shown.items():
            if action.choices:
                offered[name] = action.choices(page)
    except BerthError as error:
        problem = error
    return render_template(
        "actions.html", actions=shown, offered=offered, problem=problem,
        done=request.args.get("done", ""), state=state,
    )  # fmt: skip


@view.route("/actions/<name>", methods=["POST"])
def act(name: str) -> str | Response:
    """Show the confirmation of an action; perform the action when the signed confirmation is
    sent."""
    page = _allowed()
    action = ACTIONS.get(name)
    if action is None:
        abort(404, f"There is no action {name}.")
    target = request.form.get("target", "").strip()[:_LONGEST]
    who = page.viewer().name or "whoever started the page"
    signer = URLSafeTimedSerializer(current_app.secret_key or "", salt="berth-action")
    asked = [name, target, who]
    confirmed = request.form.get("confirmed")
    if confirmed is None:
        if action.label and not target:
            return _failed(UsageError(f"{action.title}: {action.label.lower()} is missing"))
        return render_template(
            "confirm.html", action=action, name=name, target=target, signed=signer.dumps(asked)
        )
    try:
        if signer.loads(confirmed, max_age=_CONFIRM_S) != asked:
            abort(400, "That is not what was shown.")
    except BadSignature:
        abort(400, "The question was shown too long ago: begin anew.")
    try:
        done = action.run(page, target)
    except BerthError as error:
        _audit(name, target, who, f"failed: {error.message}")
        return _failed(error)
    _audit(name, target, who, "done")
    return redirect(url_for("actions.actions", done=done[:_LONGEST]), 303)


def _state(page: Context) -> list[tuple[str, str]]:
    """Return what the site's settings say now, and whether the daemon answers: name and value."""
    if page.is_demo:
        return []
    site = page.site()
    switch = site.daemon.kill_switch
    try:
        stats = ask(site.daemon.socket, {"v": 1, "op": "stats"}, timeout_s=DAEMON_S)
        daemon = f"answers, in mode {stats.get('mode', '?')}"
    except BerthError as error:
        daemon = error.message
    return [
        ("Kill switch", f"set: {switch} exists, every job is left as it is" if switch.exists()
         else "not set"),
        ("Mode of the site file", site.mode.value),
        ("Daemon", daemon),
    ]  # fmt: skip


def _allowed() -> Context:
    page = context()
    if page.viewer().only is not None:
        abort(403, "Actions are for administrators.")
    return page


def _failed(error: BerthError) -> str:
    return render_template("actions.html", actions={}, offered={}, problem=error, done="", state=[])


def _audit(name: str, target: str, who: str, result: str) -> None:
    log.info(
        "action=%s target=%r by=%r from=%s result=%r", name, target, who, request.remote_addr,
        result,
    )  # fmt: skip


def _site_file(page: Context) -> Path:
    if page.settings.site_file is None:
        raise UsageError("the demo site cannot be changed", hint="start with: berth ui --site FILE")
    return page.settings.site_file


def _learn(page: Context, _: str) -> str:
    learner = Learner(page.whole_store(), everybody=page.site().learning.everybody)
    return learning_sentences(learner.until_done())[0]


def _forget(page: Context, target: str) -> str:
    if not page.whole_store().remove_workload(target):
        raise UsageError(f"there is no workload {target!r} in the store")
    return f"{target} is forgotten: its jobs are left alone from now on"


def _refresh(page: Context, target: str) -> str:
    site = page.site()
    refresh(
        page.whole_store(), [target], forecaster=page.forecaster(),
        platforms=platforms_for(site), reference=reference_of(site),
    )  # fmt: skip
    return f"{target} was predicted again"


def _mode(page: Context, target: str) -> str:
    if target not in {mode.value for mode in Mode}:
        raise UsageError(f"{target!r} is no mode")
    edit(_site_file(page), "", "mode", target)
    return f"the site file says mode {target}; the daemon follows within a second"


def _modes(page: Context) -> list[str]:
    now = page.site().mode
    return [mode.value for mode in (now, *(other for other in Mode if other is not now))]


def _stop(page: Context, _: str) -> str:
    switch = _switch(page)
    try:
        switch.touch()
    except OSError as error:
        raise UsageError(f"{switch} cannot be made: {error.strerror}") from None
    return f"every job is left alone while {switch} exists"


def _go_on(page: Context, _: str) -> str:
    switch = _switch(page)
    try:
        switch.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{switch} cannot be removed: {error.strerror}") from None
    return f"{switch} is gone: jobs are looked at again"


def _switch(page: Context) -> Path:
    _site_file(page)
    return page.site().daemon.kill_switch


def _workloads(page: Context) -> list[str]:
    return [] if page.store() is None else page.whole_store().names()


ACTIONS: Mapping[str, PageAction] = {
    "stop": PageAction(
        "Stop all placements now", "Sets the kill switch: every job is left as it is.", "", _stop,
        style="danger",
    ),
    "go-on": PageAction(
        "Go on after a stop", "Removes the kill switch: jobs are placed again.", "", _go_on,
        style="primary",
    ),
    "learn": PageAction(
        "Learn now", "Makes forecasts anew by finished jobs not yet looked at.", "", _learn
    ),
    "refresh": PageAction(
        "Predict a workload again", "Predicts {target} anew with the present bundles.",
        "Workload", _refresh, _workloads,
    ),
    "forget": PageAction(
        "Forget a workload",
        "Takes {target} and its forecasts out of the store: its jobs are left alone from then on.",
        "Workload", _forget, _workloads,
    ),
    "mode": PageAction(
        "Set the site's mode", "Writes mode {target} into the site file, for every job.", "Mode",
        _mode, _modes,
    ),
}  # fmt: skip
