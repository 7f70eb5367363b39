"""The view *Predict*: a workload's time on every platform, and why."""

from __future__ import annotations

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from berth.pilot.errors import BerthError
from berth.plugin.report.of_workload import predicted, workload_report
from berth.plugin.ui.context import context
from berth.plugin.ui.workload_form import WorkloadForm

view = Blueprint("predict", __name__)


@view.route("/predict", methods=["GET", "POST"])
def predict() -> str | Response:
    """The form, and the ranking of what was sent.

    What is sent as a file gets an address of its own: the answer can be reloaded and sent on.
    """
    here = context()
    form = WorkloadForm(request.values)
    report, problems = None, form.named(here)
    try:
        if form.asked() and form.validate():
            workload = form.read(here)
            if request.method == "POST":
                return redirect(url_for("predict.predict", **form.link()), 303)
            report = workload_report(predicted(workload, here.forecaster(), here.site()))
    except BerthError as error:
        problems = [error]
    return render_template("predict.html", form=form, report=report, problems=problems)
