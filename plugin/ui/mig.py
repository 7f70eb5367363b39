"""The view *MIG*: the fleet's GPUs by slice, a plan for them, and each model's MIG profiles."""

from __future__ import annotations

from flask import Blueprint, render_template, request
from wtforms import Form, IntegerField, SelectField
from wtforms.validators import NumberRange, Optional

from berth.pilot.documents import read_json, read_json_or_toml
from berth.pilot.errors import BerthError, UsageError
from berth.plugin.forecasting import platforms_for, reference_of
from berth.plugin.mig.recommending import SlicePredictions
from berth.plugin.report.of_fleet import fleet_report
from berth.plugin.report.of_slices import profiles_table
from berth.plugin.ui.context import Context, context
from berth.policies.mig import known_gpus, lookup
from berth.policies.mig.documents import FleetDocument, PlanDocument, plan_document, states_of
from berth.policies.mig.layout import GpuState
from berth.policies.mig.planner import plan
from berth.predictor.core.workload import parse_workload

view = Blueprint("mig", __name__)
OBJECTIVES = ("jobs", "throughput", "makespan", "energy", "gpus", "recuts")
_SOLVE_S = 1.5
"""Time limit of the solver while a page waits; `berth mig plan` takes longer and finds better
plans."""


class PlanForm(Form):
    """The form for planning MIG slices for jobs of a stored workload."""

    workload = SelectField("Plan for jobs of", [Optional()], validate_choice=False)
    count = IntegerField("Jobs", [Optional(), NumberRange(min=1, max=10_000)], default=4)
    objective = SelectField("Objective", validate_choice=False, choices=OBJECTIVES)


@view.route("/mig")
def mig() -> str:
    """Show the page of MIG slices: the fleet of ``--fleet`` beside ``--plan`` or a new plan, and
    one GPU model's MIG profiles."""
    page = context()
    name = request.args.get("gpu", known_gpus()[0])
    form = PlanForm(request.args)
    report, table = None, None
    problems: list[BerthError] = []
    form.workload.choices = [""]
    try:
        table = profiles_table(lookup(name)) if name else None
    except BerthError as error:
        problems.append(error)
    try:
        form.workload.choices += page.workload_names()
    except BerthError as error:
        problems.append(error)
    try:
        if page.settings.fleet is not None:
            document = read_json_or_toml(page.settings.fleet, FleetDocument)
            states = states_of(document, source=page.settings.fleet)
            report = fleet_report(states, _plan(page, form, document, states))
    except BerthError as error:
        problems = [problem for problem in problems if problem is not error] + [error]
    return render_template(
        "mig.html", report=report, table=table, models=known_gpus(), asked=name,
        problems=problems, form=form, fleet=page.settings.fleet,
    )  # fmt: skip


def _plan(
    page: Context, form: PlanForm, fleet: FleetDocument, states: tuple[GpuState, ...]
) -> PlanDocument | None:
    """Return a new plan for the form's workload, else the plan of ``--plan``; None: there is
    neither. Raises BerthError."""
    if "workload" in request.args and not form.workload.data:
        raise UsageError("a plan for which jobs?", hint="choose a stored workload")
    if form.workload.data and form.validate():
        record = page.workload(form.workload.data)
        if record is None:
            raise UsageError(f"there is no workload {form.workload.data!r} in the store")
        workload = parse_workload(record.document, source=f"workload {record.name}")
        site = page.site()
        predictions = SlicePredictions(page.forecaster(), platforms_for(site), reference_of(site))
        geometries = list({state.geometry.gpu: state.geometry for state in states}.values())
        demand = predictions.demand(workload, geometries, count=form.count.data or 1)
        new_plan = plan(
            states, [demand], form.objective.data or OBJECTIVES[0], now_s=fleet.as_of_s,
            time_limit_s=_SOLVE_S,
        )  # fmt: skip
        return plan_document(new_plan, fleet)
    if (
        page.settings.plan is not None and page.viewer().only is None
    ):  # the plan names other users' jobs
        return read_json(page.settings.plan, PlanDocument)
    return None
