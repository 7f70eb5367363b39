"""The objective ``throughput-fair``: keeps scarce candidates for users below their fair share.

The max-min fairness of Gavel (Narayanan et al., OSDI 2020, section 4.1) shares heterogeneous
devices so that the smallest normalised throughput of any user, relative to the user's share, is as
large as possible. Gavel solves this problem in every round and moves running jobs. Berth places one
job at submission and moves none, so it only adds a price for scarce candidates that grows with the
user's recent usage.
"""

from __future__ import annotations

from berth.policies.limits import AT_SHARE
from berth.policies.objectives.protocol import JobEstimate, Objective, ScoreTerm, time_terms

MOST_USE = 2.0
"""Largest exponent ``usage``: users with at least twice their fair share count with this value."""


class ThroughputFair(Objective):
    """Choose the candidate with the smallest time x part ** usage.

    time   predicted time with weighted wait, in seconds part   fraction of the candidate's GPUs or
    cores that the job uses, 0 to 1 usage  the user's recent usage divided by the fair share, 0 to
    ``MOST_USE``
    """

    name = "throughput-fair"
    weights = ("wait",)
    superlative = "is predicted to give every user a fair throughput"
    live = True

    def score(self, estimate: JobEstimate) -> float | None:
        """Return time x part ** usage: seconds, weighted by the job's part of the candidate."""
        return float(estimate.time_s * _part(estimate) ** _use(estimate))

    def terms(self, estimate: JobEstimate) -> tuple[ScoreTerm, ...]:
        """Return the predicted time, the part of the candidate and the exponent, for a person to
        read.
        """
        return (
            *time_terms(estimate),
            ScoreTerm("part of the place held", _part(estimate), ""),
            ScoreTerm("exponent of it: use / share of the user", _use(estimate), ""),
        )


def _part(estimate: JobEstimate) -> float:
    """Return the fraction of the candidate's GPUs or cores that the job uses, 0 to 1."""
    candidate, held = estimate.candidate, estimate.resources
    each = candidate.gpus_per_node if candidate.is_gpu else candidate.cores_per_node
    units = held.gpus if candidate.is_gpu else held.cores
    there = each * (candidate.nodes or max(1, held.nodes)) * candidate.slice_part
    return min(1.0, max(1, units) * candidate.slice_part / max(there, 1e-9))


def _use(estimate: JobEstimate) -> float:
    state, request = estimate.state, estimate.request
    if state is None or state.used_shares is None or request is None:
        return AT_SHARE
    return min(max(0.0, state.used_shares.of(request.user)), MOST_USE)
