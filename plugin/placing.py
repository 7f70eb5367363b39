"""From a profile to a Decision, for a person who asks: what ``berth place`` does.

The submit filter's way (look-ups only) is the daemon's; here the predictor is loaded and asked.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from berth.pilot.errors import BerthError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.plugin.scheduler import Scheduler, states_of
from berth.plugin.site.site import Site
from berth.policies import Decider, Decision, Objective, Request, Resources
from berth.policies.values import CandidateState
from berth.predictor.core.forecast import Forecast
from berth.predictor.hardware import platforms as known_platforms


class Forecaster(Protocol):
    """What makes forecasts: a ``Predictor``."""

    def forecast(
        self, profile: Profile, platforms: Mapping[str, Platform], reference: Platform | None = None
    ) -> Forecast:
        """Everything predicted for ``profile`` on ``platforms``."""
        ...


@dataclass(frozen=True, slots=True)
class Placing:
    """A Decision with what a person should know beside it."""

    decision: Decision
    request: Request
    notes: tuple[str, ...]
    """Sentences: what was assumed, what could not be read."""


def place(
    profile: Profile,
    request: Request,
    site: Site,
    *,
    predictor: Forecaster,
    scheduler: Scheduler | None = None,
    objective: Objective | None = None,
    strict: bool = False,
) -> Placing:
    """Forecast ``profile`` on the site's platforms and decide over its candidates.

    Without a ``scheduler`` the candidates' states are not known; a scheduler that cannot be
    read is a note, unless ``strict`` (then every candidate's state is unknown and ruled out).
    """
    forecast, notes = forecast_for(profile, site, predictor)
    states: Mapping[str, CandidateState] = {}
    if scheduler is not None:
        try:
            states = states_of(scheduler.read(), site.candidates)
        except BerthError as error:
            notes.append(f"The present state is not known: {error.message}.")
    policy = replace(site.policy, strict=strict, objective=objective or site.policy.objective)
    decision = Decider(site.candidates, policy).decide(request, states, forecast, time.time())
    return Placing(decision, request, tuple(notes))


def forecast_for(profile: Profile, site: Site, predictor: Forecaster) -> tuple[Forecast, list[str]]:
    """The forecast on the site's platforms, anchored on the one the profile was measured on."""
    platforms = dict(site.platforms)
    reference = platforms.get(profile.platform) or known_platforms.load().get(profile.platform)
    notes = []
    if reference is None:
        notes.append(
            f"The profile was measured on {profile.platform!r}, of which there is no platform "
            f"file: predictions are not anchored on its time (make one: berth pilot bench)."
        )
    if not profile.complete:
        notes.append("The pilot run did not complete: the profile is only part of a run.")
    return predictor.forecast(profile, platforms, reference), notes


def request_from(
    profile: Profile,
    *,
    user: str,
    tasks: int | None = None,
    cpus_per_task: int | None = None,
    nodes: int | None = None,
    gpus: int | None = None,
    memory_bytes_per_node: int | None = None,
) -> Request:
    """A request of the given shape; what is not given is as the profile was run."""
    ran = profile.runs_on
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
        profile=profile.name,
    )
