"""Tables of expected waits: made beside the answers, by ``berth jobs waits`` in its own process.

Like learning, the look-ahead needs numpy and up to seconds of a core. The answering thread only
looks its tables up, and no table that is old.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from berth.pilot.errors import BerthError
from berth.plugin.daemon.beside import ask_beside
from berth.plugin.scheduler.states import Reading, ReadStates
from berth.plugin.site.site import Site
from berth.policies.values import CandidateState
from berth.policies.waits import WaitTable

LONGEST_S = 120.0
PATIENCE = 3.0
"""Tables older than so many periods (or times of making them, where that takes longer) are not
used: waits are guessed as without them."""


class _Made(NamedTuple):
    tables: Mapping[str, WaitTable]
    at_s: float
    """By the monotonic clock, when they began to be made."""
    patience_s: float


class ExpectedWaits:
    """The newest tables by candidate, replaced whole by one assignment."""

    def __init__(self, period_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._period_s, self._clock = period_s, clock
        self._made = _Made({}, 0.0, 0.0)

    def renew(self, make: Callable[[], Mapping[str, WaitTable]]) -> None:
        """Tables of this moment; what ``make`` raises leaves the last ones."""
        begin_s = self._clock()
        tables = make()
        longest_s = max(self._period_s, self._clock() - begin_s)
        self._made = _Made(tables, begin_s, PATIENCE * longest_s)

    @property
    def age_s(self) -> float | None:
        """None: there are none."""
        made = self._made
        return self._clock() - made.at_s if made.tables else None

    def fresh(self) -> Mapping[str, WaitTable]:
        """Those that are not too old."""
        made = self._made
        return made.tables if self._clock() - made.at_s <= made.patience_s else {}


def follow_waits(
    site: Site,
    states: Callable[[], Mapping[str, CandidateState]],
    waits: ExpectedWaits,
) -> Callable[[], None]:
    """A step that makes tables anew while anything runs or waits. Raises BerthError."""

    def step() -> None:
        waits.renew(lambda: _ask(site) if _in_use(site, states()) else {})

    return step


def with_waits(read: ReadStates, waits: ExpectedWaits) -> ReadStates:
    """A reader of states that knows the expected waits."""

    def both() -> Reading:
        reading, tables = read(), waits.fresh()
        if not tables:
            return reading
        states = {
            name: replace(state, waits=tables.get(name)) for name, state in reading.states.items()
        }
        return replace(reading, states=MappingProxyType(states))

    return both


def _in_use(site: Site, states: Mapping[str, CandidateState]) -> bool:
    """Whether anything is in use, or waits, at a place of the site."""
    for one in site.candidates:
        state = states.get(one.name)
        if state is None or not state.up:
            continue
        nodes = (one.nodes if state.usable_nodes is None else state.usable_nodes) or 0
        if state.pending_jobs or state.idle_cores < nodes * one.cores_per_node:
            return True
    return False


def _ask(site: Site) -> dict[str, WaitTable]:
    answer = ask_beside(site, "jobs waits", longest_s=LONGEST_S)
    try:
        return {name: WaitTable.of_dict(one) for name, one in answer["tables"].items()}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BerthError(f"berth jobs waits answered something unreadable: {error}") from None
