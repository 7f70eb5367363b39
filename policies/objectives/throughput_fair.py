"""Throughput for everybody: fast nodes for users below their share, scarce ones spared by others.

The max-min fairness of Gavel (Narayanan et al., OSDI 2020, section 4.1) shares heterogeneous
devices so that the smallest normalised throughput of a user, relative to the user's share, is as
large as can be. Gavel solves that anew every round and moves jobs; at submission, with one job to
place and none to move, what is left of it is a price of scarcity that grows with what the user has
already had.
"""

from __future__ import annotations

from berth.policies.limits import AT_SHARE
from berth.policies.objectives.protocol import Estimate, Objective, Term, time_terms

MOST_USE = 2.0
"""A user who has used twice its share or more pays this much for scarcity."""


class ThroughputFair(Objective):
    """Smallest time x (part of the candidate that the job holds) ** (user's use of its share)."""

    name = "throughput-fair"
    superlative = "is predicted to give every user a fair throughput"
    live = True

    def score(self, estimate: Estimate) -> float | None:
        """See Objective."""
        return float(estimate.time_s * _part(estimate) ** _use(estimate))

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        """See Objective."""
        return (
            *time_terms(estimate),
            Term("part of the place held", _part(estimate), ""),
            Term("exponent of it: use / share of the user", _use(estimate), ""),
        )


def _part(estimate: Estimate) -> float:
    """Return the part of the candidate's GPUs or cores that the job holds, 0 to 1."""
    candidate, held = estimate.candidate, estimate.resources
    each = candidate.gpus_per_node if candidate.is_gpu else candidate.cores_per_node
    units = held.gpus if candidate.is_gpu else held.cores
    there = each * (candidate.nodes or max(1, held.nodes)) * candidate.slice_part
    return min(1.0, max(1, units) * candidate.slice_part / max(there, 1e-9))


def _use(estimate: Estimate) -> float:
    state, request = estimate.state, estimate.request
    if state is None or state.used_shares is None or request is None:
        return AT_SHARE
    return min(max(0.0, state.used_shares.of(request.user)), MOST_USE)
