"""The ranked places as they stand now: what the present states say alike to every submitter.

Made once for a shape of job and a reading of the states; what is left for each submission is who
asks, and how old the reading is by then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from berth.policies.limits import Rights, UsedShares
from berth.policies.objectives.protocol import Offer
from berth.policies.ranking import Checked, Shape
from berth.policies.settings import PolicySettings
from berth.policies.values import (
    UNBOUNDED,
    Candidate,
    CandidateState,
    Ranked,
    Request,
    Resources,
)


class Standing(NamedTuple):
    """A place that fits the job, and what may still rule it out, in order."""

    row: Ranked
    """With the expected wait in its score, where the site counts it."""
    offer: Offer | None
    candidate: Candidate
    state: CandidateState | None
    checks: tuple[PresentConstraint, ...]
    open_to_all: bool
    """Only an old reading, or queues that the submitter may not use, can rule it out."""

    def read_again(self, state: CandidateState | None) -> Standing:
        """The same by another reading that says the same."""
        return Standing(self.row, self.offer, self.candidate, state, self.checks, self.open_to_all)

    def says_same(self, other: Standing) -> bool:
        """Whether they differ by their reading alone."""
        return (
            self.row is other.row
            and self.checks == other.checks
            and self.open_to_all == other.open_to_all
        )


class Places(NamedTuple):
    """All places for a shape of job, best first."""

    shape: Shape
    """What they were made from, held so that its identity stays its own."""
    as_ranked: tuple[Standing, ...]
    """In the order of the shape's rows."""
    standing: tuple[Standing, ...]
    queues: frozenset[str | None]
    """Of ``standing``."""
    oldest_s: float
    """Of the readings, where nothing else can rule a place out; -infinite: something may."""
    ruled_out: tuple[Ranked, ...]
    """For good, as ranked."""
    made: object
    """The same object in all that differ by the age of their readings alone."""


def standing(
    scored: tuple[Ranked, Offer | None],
    request: Request,
    candidate: Candidate,
    state: CandidateState | None,
    settings: PolicySettings,
) -> Standing:
    """A place that fits, by its state. ``scored``: its row, and what the score is made of."""
    row, offer = scored
    seen = checked(request, candidate, row.resources, state, settings)
    return Standing(row, offer, candidate, state, seen.checks, seen.open_to_all)


def checked(
    request: Request,
    candidate: Candidate,
    held: Resources,
    state: CandidateState | None,
    settings: PolicySettings,
) -> Checked:
    """What may still rule a place out, whatever problem size is asked for."""
    if (
        state is not None
        and state.bounds is UNBOUNDED
        and request.default_memory is None
        and (state.usable_nodes is None or state.usable_nodes >= held.nodes)
        and state.rights is None
        and not state.ruled_out
        and candidate.slice_of is None
    ):
        found = _PLAIN
    else:
        found = checks(Moment(request, candidate, settings, held, state, 0.0))
    open_to_all = (
        found == _PLAIN
        and state is not None
        and state.up
        and state.usable_nodes != 0
        and candidate.allowed_users is None
        and candidate.allowed_accounts is None
        and candidate.allowed_qos is None
    )
    return Checked(state, found, open_to_all)


def places(shape: Shape, as_ranked: tuple[Standing, ...], in_order: Sequence[Standing]) -> Places:
    """Of what stands, as ranked and in order."""
    return Places(
        shape, as_ranked, tuple(in_order),
        frozenset([place.candidate.queue for place in as_ranked]),
        _oldest_s(as_ranked), shape.rows[len(as_ranked) :], object(),
    )  # fmt: skip


def read_again(
    found: Places, as_ranked: tuple[Standing, ...], states: Mapping[str, CandidateState]
) -> Places:
    """The same places by another reading, of which all that matters says the same."""
    in_order = tuple(
        [place.read_again(states.get(place.row.candidate)) for place in found.standing]
    )
    return found._replace(as_ranked=as_ranked, standing=in_order, oldest_s=_oldest_s(as_ranked))


def alike(one: CandidateState | None, other: CandidateState | None, *, with_room: bool) -> bool:
    """Whether two readings of a place say the same, but for their age.

    Without ``with_room`` what is idle, waits and was used of late is not looked at.
    """
    if one is other:
        return True
    if one is None or other is None:
        return False
    return (
        one.up == other.up
        and one.closed == other.closed
        and one.usable_nodes == other.usable_nodes
        and one.gpu_types == other.gpu_types
        and one.bounds == other.bounds
        and one.ruled_out == other.ruled_out
        and (one.rights is other.rights or _digest(one.rights) == _digest(other.rights))
        and (not with_room or _has_room_alike(one, other))
    )


def _has_room_alike(one: CandidateState, other: CandidateState) -> bool:
    return (
        one.idle_cores == other.idle_cores
        and one.idle_gpus == other.idle_gpus
        and one.pending_jobs == other.pending_jobs
        and one.waits == other.waits
        and _digest(one.used_shares) == _digest(other.used_shares)
    )


def _digest(of: Rights | UsedShares | None) -> str | None:
    return None if of is None else of.digest


def _oldest_s(as_ranked: Sequence[Standing]) -> float:
    oldest_s = math.inf
    for place in as_ranked:
        if place.state is None or not place.open_to_all:
            return -math.inf
        oldest_s = min(oldest_s, place.state.as_of_s)
    return oldest_s


_PLAIN: tuple[PresentConstraint, ...] = (allowed, fresh_and_up)
"""What can rule a place out at any site."""


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
