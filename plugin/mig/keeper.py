"""Who keeps jobs off the node while it is cut: the scheduler's part of an apply.

A keeper is told the layouts before the first cut and answers with a *notice*: plain data that
goes into the journal, from which it can later publish either layout, also after a crash and in
another process. Every method may be called again with the same effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from berth.plugin.mig.inventory import Fleet
from berth.policies.mig import Instance, Layout

Notice = dict[str, Any]
"""``{"old": ..., "new": ...}``, each whatever the keeper needs to publish that layout."""


class Keeper(Protocol):
    """Keeps jobs away and tells the scheduler what there is. All raise BerthError."""

    def allocated(self, fleet: Fleet) -> frozenset[tuple[str, Instance]]:
        """Instances that the scheduler has given to jobs, by GPU UUID."""
        ...

    def prepare(self, fleet: Fleet, target: Mapping[str, Layout]) -> Notice:
        """Check that the new layout can be published. Raises PlanRefused; nothing is changed."""
        ...

    def drain(self, reason: str) -> None:
        """From now on no new job starts on the node; running ones go on."""
        ...

    def publish(self, part: Any, fleet: Fleet) -> None:
        """Tell the scheduler: ``part`` is the notice's ``old`` or ``new``; wait until it knows."""
        ...

    def release(self, reason: str) -> None:
        """Take back ``drain`` of this reason; somebody else's drain stays."""
        ...


class NoKeeper:
    """No scheduler gives out this node's slices."""

    def allocated(self, fleet: Fleet) -> frozenset[tuple[str, Instance]]:
        """None."""
        return frozenset()

    def prepare(self, fleet: Fleet, target: Mapping[str, Layout]) -> Notice:
        """Nothing to tell."""
        return {"old": None, "new": None}

    def drain(self, reason: str) -> None:
        """Nobody to keep away."""

    def publish(self, part: Any, fleet: Fleet) -> None:
        """Nobody to tell."""

    def release(self, reason: str) -> None:
        """Nothing to take back."""
