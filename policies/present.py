"""The ranked places as they stand now: what the present states say alike to every submitter.

Made once for a shape of job and a reading of the states; what is left for each submission is who
asks, and how old the reading is by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from berth.policies.constraints import (
    PRESENT,
    SETTLED,
    Exclusion,
    Moment,
    PresentConstraint,
    can_exclude,
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
    waiting: Callable[[Ranked, CandidateState | None], Ranked],
) -> Places:
    """``waiting`` puts the expected wait into a row's score."""
    found = []
    for row in rows:
        if row.score is None:
            continue
        candidate, state = candidates[row.candidate], states.get(row.candidate)
        moment = Moment(request, candidate, settings, row.resources, state, 0.0)
        checks = tuple(_checks(moment))
        found.append(Standing(waiting(row, state), candidate, state, checks))
    return Places(rows, tuple(found), tuple(row for row in rows if row.score is None))


def _checks(moment: Moment) -> Sequence[PresentConstraint]:
    """Those of the present constraints that can rule the place out for anybody."""
    found: list[PresentConstraint] = []
    for constraint in PRESENT:
        if constraint in SETTLED:
            excluded = constraint(moment)
            if excluded is not None:
                return [*found, _always(excluded)]
        elif can_exclude(constraint, moment):
            found.append(constraint)
    return found


def _always(excluded: Exclusion) -> PresentConstraint:
    return lambda _moment: excluded
