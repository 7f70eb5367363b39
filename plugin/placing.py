"""Makes the decision of ``berth place``: forecasts a workload, and chooses among the site's places.

Unlike the daemon, which only looks forecasts up, this loads the predictor and makes a forecast.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from berth.pilot.errors import BerthError, UsageError
from berth.pilot.plausible import is_contention
from berth.pilot.profile import Profile
from berth.pilot.units import parse_bytes, parse_duration_s
from berth.plugin.scheduler import Scheduler, states_of
from berth.plugin.scheduler.states import own_queues_of
from berth.plugin.site.site import Site
from berth.plugin.workloads.names import caller
from berth.policies.decide import Decider
from berth.policies.objectives import ScoreTerm
from berth.policies.values import CandidateState, Decision, Request, Resources
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.workload import Workload
from berth.predictor.families.program.problem_size import size_doubt
from berth.predictor.hardware import platforms as known_platforms


@dataclass(frozen=True, slots=True)
class Placing:
    """A decision, with the forecast and the notes that explain it."""

    decision: Decision
    request: Request
    forecast: Forecast
    """The forecast that the decision is based on."""
    notes: tuple[str, ...]
    """Sentences on what was assumed and what could not be read."""
    terms: Mapping[str, tuple[ScoreTerm, ...]] = field(default_factory=dict)
    """The terms of the objective's score, by candidate."""


def place(
    workload: Workload,
    request: Request,
    site: Site,
    *,
    forecaster: Forecaster,
    scheduler: Scheduler | None = None,
    objective: str | None = None,
    strict: bool = False,
) -> Placing:
    """Forecast ``workload`` on the site's platforms and decide among the site's candidates.

    Without a ``scheduler`` the candidates' states are unknown. If the scheduler cannot be read, a
    note says so; with ``strict`` candidates whose state is unknown are ruled out.
    """
    forecast, notes = forecast_for(workload, site, forecaster)
    document = workload.document
    if isinstance(document, Profile) and (doubt := size_doubt(document, request.size)) is not None:
        notes.append(f"Of the size: {doubt}.")
    states: Mapping[str, CandidateState] = {}
    if scheduler is not None:
        try:
            facts = scheduler.read()
            states = states_of(facts, site.candidates)
            if request.wants_placement:
                queue = request.queue or site.reference_queue
                own = own_queues_of(facts, ()).get(queue)
                if own is not None:  # its memory and time limit; a person asks for other places
                    request = replace(request, own=replace(own, bounds=None))
        except BerthError as error:
            notes.append(f"The present state is not known: {error.message}.")
    policy = site.policy.model_copy(
        update={"strict": strict, "objective": objective or site.policy.objective}
    )
    decider = Decider(site.candidates, policy)
    decision = decider.decide(request, states, forecast, time.time())
    terms = {
        row.candidate: decider.terms(request, row, states, forecast)
        for row in decision.ranked
        if row.score is not None
    }
    return Placing(decision, request, forecast, tuple(notes), terms)


def forecast_for(
    workload: Workload, site: Site, forecaster: Forecaster
) -> tuple[Forecast, list[str]]:
    """Return the forecast on the site's platforms, scaled to the workload's measured time, with
    notes.
    """
    known = {**known_platforms.load(), **site.platforms}
    notes = []
    document = workload.document
    if isinstance(document, Profile):
        notes += [f"Of the pilot: {text}." for text in document.warnings if is_contention(text)]
        # A profile with counters abstains with the same words.
        if document.platform not in known and not document.counters:
            notes.append(
                f"The profile was measured on {document.platform!r}, of which there is no platform "
                "file: predictions are not tied to its time (make one: berth pilot bench)."
            )
        if not document.complete:
            notes.append("The pilot run did not complete: the profile is only part of a run.")
    forecast = forecaster.forecast(
        workload, site.platforms, known, reference=site.reference_platform
    )
    if not forecast.whole_job:
        notes.append(
            f"How much work a job does is not known: times are of one {forecast.unit.value}, "
            "platforms are ranked by them, and no time limit is judged."
        )
    return forecast, notes


def request_from(
    workload: Workload,
    *,
    user: str,
    tasks: int | None = None,
    cpus_per_task: int | None = None,
    nodes: int | None = None,
    gpus: int | None = None,
    memory_bytes_per_node: int | None = None,
) -> Request:
    """Return a request of the given shape; missing values come from the workload's measured run."""
    ran = workload.runs_on
    resources = Resources(
        nodes=nodes or 0,
        tasks=tasks if tasks is not None else ran.ranks,
        cpus_per_task=cpus_per_task if cpus_per_task is not None else ran.threads,
        gpus=gpus if gpus is not None else ran.gpus,
        memory_bytes_per_node=memory_bytes_per_node,
    )
    return Request(
        user=user,
        account=None,
        resources=resources,
        pinned=("nodes",) if nodes else (),
        workload=workload.name,
    )


def asked_request(workload: Workload, options: Mapping[str, Any]) -> Request:
    """Return the request that the options of ``berth place`` describe.

    ``options``: values by option name; None: not given. Raises UsageError for an invalid value.
    """
    memory = options.get("mem")
    limit_s = _seconds("--time-limit", options.get("time_limit"))
    within_s = _seconds("--finish-within", options.get("finish_within"))
    if within_s == 0:
        raise UsageError("--finish-within must be positive")
    size = options.get("size")
    if size is not None and not (math.isfinite(size) and size > 0):
        raise UsageError(f"--size {size} is not a problem size; it must be positive")
    asked = request_from(
        workload,
        user=options.get("user") or caller(),
        tasks=options.get("tasks"),
        cpus_per_task=options.get("cpus_per_task"),
        nodes=options.get("nodes"),
        gpus=options.get("gpus"),
        memory_bytes_per_node=None if memory is None else parse_bytes(memory),
    )
    return replace(
        asked,
        account=options.get("account"),
        qos=options.get("qos"),
        queue=options.get("partition"),
        features=options.get("constraint"),
        gres=options.get("gres"),
        time_limit_s=limit_s,
        size=size,
        needs=replace(asked.needs, finish_within_s=within_s),
    )


def _seconds(option: str, value: str | None) -> float | None:
    try:
        return None if value is None else parse_duration_s(value)
    except ValueError as error:
        raise UsageError(f"{option} {value!r} {error}") from None
