"""The ranked places as they stand now: what the present states say alike to every submitter.

Made once for a shape of job and a reading of the states; what is left for each submission is who
asks, and how old the reading is by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from berth.policies.constraints import (
    Exclusion,
    Moment,
    PresentConstraint,
    allowed,
    cut_now,
    enough_nodes_work,
    fresh_and_up,
    not_ruled_out,
    within_account_limits,
    within_queue_bounds,
)
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, CandidateState, Ranked, Request


class Standing(NamedTuple):
    """A place that fits the job, and what may still rule it out, in order."""

    row: Ranked
    """With the expected wait in its score, where the site counts it."""
    candidate: Candidate
    state: CandidateState | None
    checks: tuple[PresentConstraint, ...]


class Places(NamedTuple):
    """All places for a shape of job, best first."""

    rows: tuple[Ranked, ...]
    """What they were made from, held so that its identity stays its own."""
    standing: tuple[Standing, ...]
    ruled_out: tuple[Ranked, ...]
    """For good, as ranked."""


def places(
    rows: tuple[Ranked, ...],
    request: Request,
    states: Mapping[str, CandidateState],
    *,
    candidates: Mapping[str, Candidate],
    settings: PolicySettings,
    waiting: Callable[[Ranked, CandidateState | None], Ranked] | None,
) -> Places:
    """``waiting`` puts the expected wait into a row's score; None: it stays as it is."""
    found = []
    for row in rows:
        if row.score is None:
            continue
        candidate, state = candidates[row.candidate], states.get(row.candidate)
        moment = Moment(request, candidate, settings, row.resources, state, 0.0)
        scored = row if waiting is None else waiting(row, state)
        found.append(Standing(scored, candidate, state, checks(moment)))
    return Places(rows, tuple(found), tuple(row for row in rows if row.score is None))


def checks(moment: Moment) -> tuple[PresentConstraint, ...]:
    """The present constraints in order, without those that can rule the place out for nobody.

    Whether enough nodes work and what the queue admits is the same for everybody who asks for
    the same shape: it is looked at here, and what excludes then stands for its constraint.
    """
    state = moment.state
    if state is None:
        return (allowed, fresh_and_up)
    found = [allowed, fresh_and_up]
    if moment.candidate.slice_of is not None:
        found = [allowed, cut_now, fresh_and_up]
    too_few = enough_nodes_work(moment)
    if too_few is not None:
        return (*found, _always(too_few))
    if state.ruled_out:
        found.append(not_ruled_out)
    over = within_queue_bounds(moment)
    if over is not None:
        return (*found, _always(over))
    if state.rights is not None:
        found.append(within_account_limits)
    return tuple(found)


def _always(excluded: Exclusion) -> PresentConstraint:
    return lambda _moment: excluded
