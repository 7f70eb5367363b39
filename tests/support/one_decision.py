"""One decision of a site that is made anew for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from berth.policies.decide import Decider
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, CandidateState, Decision, Request
from berth.predictor.core.forecast import Forecast


def decide(
    request: Request,
    candidates: Sequence[Candidate],
    states: Mapping[str, CandidateState],
    forecast: Forecast | None,
    settings: PolicySettings,
    *,
    now_s: float,
) -> Decision:
    return Decider(candidates, settings).decide(request, states, forecast, now_s)
