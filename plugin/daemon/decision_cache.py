"""Decisions cached while nothing they were made from has changed.

Jobs come in bursts of equals (a loop around ``sbatch``, a workflow): the same request, forecast,
site and state give the same decision, so it is made once. A new reading of the cluster, every
few seconds, forgets them all.
"""

from __future__ import annotations

import math

from berth.pilot.bounded import BoundedCache
from berth.plugin.daemon.view import SiteView, Snapshot
from berth.plugin.host import HOST, Clock
from berth.policies.exploring import Allowance
from berth.policies.values import Decision, Request
from berth.predictor.core.forecast import Forecast

_MOST = 4_096


class DecisionCache:
    """``decide`` as the site's Decider would, from the cache where the answer is known."""

    def __init__(self, clock: Clock = HOST.clock) -> None:
        self._clock = clock
        self.hits = 0
        self._site: SiteView | None = None
        self._snapshot: Snapshot | None = None
        self.until_s = 0.0
        """When the first state grows stale that the cached decisions were made from."""
        self._known: BoundedCache[Request, tuple[Forecast | None, Decision]] = BoundedCache(_MOST)

    def decide(
        self,
        site: SiteView,
        snapshot: Snapshot,
        request: Request,
        forecast: Forecast | None,
        allowance: Allowance | None = None,
    ) -> Decision:
        """The Decision at this moment; made anew where there is an ``allowance`` to learn."""
        now_s = snapshot.now_s(self._clock.monotonic())
        if site is not self._site or snapshot is not self._snapshot or now_s > self.until_s:
            self._forget(site, snapshot, now_s)
        if allowance is not None:
            return site.decider.decide(request, snapshot.states, forecast, now_s, allowance)
        found = self._known.get(request)
        if found is not None and found[0] is forecast and not site.decider.objective.turns:
            self.hits += 1
            return found[1]
        decision = site.decider.decide(request, snapshot.states, forecast, now_s)
        self._known.put(request, (forecast, decision))
        return decision

    def _forget(self, site: SiteView, snapshot: Snapshot, now_s: float) -> None:
        """Start anew; what is known holds until the next state grows stale."""
        self._known.clear()
        self._site, self._snapshot = site, snapshot
        patience_s = site.decider.settings.stale_after_s
        ends = (state.as_of_s + patience_s for state in snapshot.states.values())
        self.until_s = min((end for end in ends if end >= now_s), default=math.inf)
