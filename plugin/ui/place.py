"""The view *Place*: the decision for a request, every alternative, and the submit command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response
from wtforms import FloatField, SelectField, StringField
from wtforms.fields.choices import SelectChoice
from wtforms.validators import NumberRange, Optional

from berth.pilot.errors import BerthError
from berth.pilot.profile import Profile
from berth.plugin.pictures.charts import TimeBar, ranked_times
from berth.plugin.placing import Placing, asked_request, place
from berth.plugin.report.of_placement import fitting_table, ruled_out_table, scores_table
from berth.plugin.report.parts import Picture, Table, drawn
from berth.plugin.scheduler import Job
from berth.plugin.scheduler.registry import open_scheduler
from berth.plugin.site import Site
from berth.plugin.ui.context import Context, context
from berth.plugin.ui.predict import WorkloadForm, count
from berth.policies.objectives import OBJECTIVES
from berth.policies.values import Ranked, Request
from berth.predictor.core.workload import Workload

view = Blueprint("place", __name__)
_REQUEST = (
    "tasks", "cpus_per_task", "nodes", "gpus", "mem", "time_limit", "partition", "size",
)  # fmt: skip
_ASKED = (*_REQUEST, "policy", "script")


class PlaceForm(WorkloadForm):
    """The form for a job's request: workload, tasks, cores, GPUs, memory, time limit."""

    tasks = count("Tasks")
    cpus_per_task = count("Cores for each")
    nodes = count("Nodes")
    gpus = count("GPUs", least=0)
    mem = StringField("Memory a node", [Optional()], render_kw={"placeholder": "16G"})
    time_limit = StringField("Time limit", [Optional()], render_kw={"placeholder": "12h"})
    partition = StringField("Stay in partition", [Optional()])
    size = FloatField("Problem size", [Optional(), NumberRange(min=0)])
    policy = SelectField("Policy", [Optional()], validate_choice=False)
    script = StringField("Script or command", [Optional()], render_kw={"placeholder": "job.sh"})


@dataclass(frozen=True, slots=True)
class Shown:
    """The contents of the page for one decision."""

    placing: Placing
    table: Table[Ranked]
    ruled_out: Table[Ranked] | None
    warning: str | None
    """Why the chosen candidate is uncertain; None: its prediction is reliable."""
    pictures: tuple[Picture, ...]
    command: str | None
    scores: Table[Ranked]


@view.route("/place", methods=["GET", "POST"])
def decide() -> str | Response:
    """Show the form, and the decision for the submitted request; each result has its own URL."""
    page = context()
    form = PlaceForm(request.values)
    shown, problems = None, form.named(page)
    form.policy.choices = [""]
    try:
        site = page.site()
        form.policy.choices = [
            SelectChoice("", f"the site's ({site.policy.objective})"),
            *OBJECTIVES.names(),
        ]
        if form.asked() and form.validate():
            workload = form.read(page)
            if request.method == "POST":
                return redirect(url_for("place.decide", **form.link(_ASKED)), 303)
            shown = _shown(page, site, form, workload)
    except BerthError as error:
        problems = [error]
    return render_template(
        "place.html", form=form, shown=shown, problems=problems, is_demo=page.is_demo
    )


def _shown(page: Context, site: Site, form: PlaceForm, workload: Workload) -> Shown:
    options = {**form.given(_REQUEST), "user": page.viewer().name}
    asked = asked_request(workload, options)
    scheduler = open_scheduler(site)
    placing = place(
        workload,
        asked,
        site,
        forecaster=page.forecaster(),
        scheduler=None if page.is_demo else scheduler,
        objective=form.policy.data or None,
    )
    ruled_out = ruled_out_table(placing)
    return Shown(
        placing,
        fitting_table(placing, site.currency),
        ruled_out if ruled_out.records else None,
        _warning(placing),
        _picture(placing),
        _command(site, workload, asked, placing, form.script.data),
        scores_table(placing, site.currency),
    )


def _warning(placing: Placing) -> str | None:
    chosen = placing.decision.ranked[0] if placing.decision.chosen is not None else None
    if chosen is None or not (chosen.warning or chosen.guess):
        return None
    words = f"{chosen.warning}. " if chosen.warning else ""
    return words + "The submit filter may not act on it." if chosen.guess else words.strip()


def _picture(placing: Placing) -> tuple[Picture, ...]:
    rows = [
        TimeBar(r.candidate, (r.runtime_s.low, r.runtime_s.mid, r.runtime_s.high), r.guess)
        for r in placing.decision.ranked
        if r.score is not None and r.runtime_s is not None
    ]
    if not rows:
        return ()
    return drawn("Predicted times by place with their 90 % intervals", lambda: ranked_times(rows))


def _command(
    site: Site, workload: Workload, asked: Request, placing: Placing, script: str | None
) -> str | None:
    if placing.decision.chosen is None:
        return None
    document = workload.document
    words = tuple(shlex.split(script or ""))
    is_script = len(words) == 1 and words[0].endswith(".sh")
    words = words or (document.workload.command if isinstance(document, Profile) else ("job.sh",))
    job = Job(words, is_script=is_script or words == ("job.sh",), comment=f"berth:{workload.name}")
    return shlex.join(open_scheduler(site).render(job, asked, placing.decision.edit))
