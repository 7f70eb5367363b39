"""A node that is cut, as its scheduler serves it: jobs kept off, layouts told, slices asked for.

Each scheduler brings a ``NodeSettings`` of its own, the table of ``mig.toml`` that bears its name.
Its *keeper* is told the layouts before the first cut and answers with a *notice*: plain data that
goes into the journal, from which it can later publish either layout, also after a crash and in
another process. Every method of a keeper may be called again with the same effect.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, Field, field_validator

from berth.pilot.documents import Document
from berth.plugin.mig.inventory import Fleet
from berth.policies.mig import Instance, Layout
from berth.policies.mig.demands import Demand


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError("must be an absolute path")
    return value


AbsolutePath = Annotated[str, AfterValidator(_absolute)]
Notice = dict[str, Any]
"""``{"old": ..., "new": ...}``, each whatever the keeper needs to publish that layout."""
_WILL_DO = re.compile(r"(?:^|\s)berth/1 .*?\bslices=([^\s]+)")


class Keeper(Protocol):
    """Keeps jobs away and tells the scheduler what there is. All raise BerthError."""

    def allocated(self, fleet: Fleet) -> frozenset[tuple[str, Instance]]:
        """Return the instances that the scheduler has given to jobs, by GPU UUID."""
        ...

    def prepare(self, fleet: Fleet, target: Mapping[str, Layout]) -> Notice:
        """Check that the new layout can be published. Raises PlanRefused; nothing is changed."""
        ...

    def drain(self, reason: str) -> None:
        """Keep new jobs from starting on the node from now on; running ones go on."""
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
        """Return no instance."""
        return frozenset()

    def prepare(self, fleet: Fleet, target: Mapping[str, Layout]) -> Notice:
        """Prepare nothing: there is nobody to tell."""
        return {"old": None, "new": None}

    def drain(self, reason: str) -> None:
        """Do nothing: there is nobody to keep away."""

    def publish(self, part: Any, fleet: Fleet) -> None:
        """Do nothing: there is nobody to tell."""

    def release(self, reason: str) -> None:
        """Do nothing: nothing was drained."""


class Asked(Document):
    """Slices that one job asked for: any of these profiles."""

    job: str
    submit_s: float
    profiles: tuple[str, ...] = Field(min_length=1)
    count: int = Field(ge=1)
    ran: bool = True
    """False: it only waited when it was last seen."""


def stamped_profiles(stamp: str, profiles: Collection[str]) -> tuple[str, ...]:
    """Return those of ``profiles`` that would do, as the submit filter wrote it in the job's
    stamp."""
    match = _WILL_DO.search(stamp)
    return () if match is None else tuple(p for p in match[1].split(",") if p in profiles)


class NodeSettings(Document, ABC):
    """A table that bears a scheduler's name: this node there. Each scheduler has its own kind."""

    node: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    type_pattern: str = "{profile}"
    """What the scheduler calls the slices of a profile."""

    @field_validator("type_pattern")
    @classmethod
    def _profiled(cls, value: str) -> str:
        if value.count("{") != 1 or "{profile}" not in value:
            raise ValueError("must hold {profile} once")
        return value

    @abstractmethod
    def keeper(self) -> Keeper:
        """Return the keeper of jobs off the node while it is cut."""

    @abstractmethod
    def pending(self, profiles: Collection[str]) -> tuple[Demand, ...]:
        """Return the jobs that wait for slices of these profiles. Raises SchedulerError."""

    @abstractmethod
    def asked(self, profiles: Collection[str]) -> Iterable[Asked]:
        """Return what all jobs that the scheduler still knows asked for. Raises SchedulerError."""
