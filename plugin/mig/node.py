"""The scheduler's part in changing MIG slices: keeps jobs off a node, publishes its slices, and
returns the slices that jobs request.

Each scheduler defines a ``NodeSettings`` of its own: the table of ``mig.toml`` that bears its name.
Before the first change its *keeper* is given the layouts and returns a *notice*: plain data for the
journal, from which the keeper can later publish either layout, even after a crash and in another
process. Every method of a keeper is idempotent.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, Field

from berth.pilot.documents import Document
from berth.plugin.mig.inventory import Fleet
from berth.policies.mig import GpuInstance, Layout
from berth.policies.mig.demands import Demand


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError("must be an absolute path")
    return value


def holding(key: str) -> AfterValidator:
    """Return a validator of text that must hold ``{key}`` once and no other key."""

    def check(value: str) -> str:
        if value.count("{") != 1 or f"{{{key}}}" not in value:
            raise ValueError(f"must hold {{{key}}} once")
        return value

    return AfterValidator(check)


AbsolutePath = Annotated[str, AfterValidator(_absolute)]
Notice = dict[str, Any]
"""``{"old": ..., "new": ...}``: the data that the keeper needs to publish the old or the new
layout."""
_WILL_DO = re.compile(r"(?:^|\s)berth/1 .*?\bslices=([^\s]+)")


class Keeper(Protocol):
    """Keeps jobs off a node and publishes its slices to the scheduler. All methods raise
    BerthError."""

    def allocated(self, fleet: Fleet) -> frozenset[tuple[str, GpuInstance]]:
        """Return the MIG instances that the scheduler has allocated to jobs, with their GPU's
        UUID."""
        ...

    def prepare(self, fleet: Fleet, target: Mapping[str, Layout]) -> Notice:
        """Check that the new layout can be published; nothing is changed. Raises PlanRefused."""
        ...

    def drain(self, reason: str) -> None:
        """Keep new jobs from starting on the node; running jobs continue."""
        ...

    def publish(self, part: Any, fleet: Fleet) -> None:
        """Publish a layout to the scheduler, and wait until the scheduler has read it.

        ``part``: the notice's ``old`` or ``new``.
        """
        ...

    def release(self, reason: str) -> None:
        """End the drain that has this reason; somebody else's drain stays."""
        ...


class NoKeeper:
    """The keeper of a node whose slices no scheduler allocates: every method does nothing."""

    def allocated(self, fleet: Fleet) -> frozenset[tuple[str, GpuInstance]]:
        """Return an empty set: no scheduler allocates slices here."""
        return frozenset()

    def prepare(self, fleet: Fleet, target: Mapping[str, Layout]) -> Notice:
        """Return an empty notice: there is no scheduler to publish to."""
        return {"old": None, "new": None}

    def drain(self, reason: str) -> None:
        """Do nothing: no scheduler starts jobs here."""

    def publish(self, part: Any, fleet: Fleet) -> None:
        """Do nothing: there is no scheduler to publish to."""

    def release(self, reason: str) -> None:
        """Do nothing: ``drain`` did nothing."""


class SlicesAsked(Document):
    """The slices that one job requested: ``count`` slices, each of any of these profiles."""

    job: str
    submit_s: float
    profiles: tuple[str, ...] = Field(min_length=1)
    count: int = Field(ge=1)
    ran: bool = True
    """False: the job was still pending when it was last seen."""


def stamped_profiles(stamp: str, profiles: Collection[str]) -> tuple[str, ...]:
    """Return the members of ``profiles`` that fit the job, as the submit filter recorded in its
    comment."""
    match = _WILL_DO.search(stamp)
    return () if match is None else tuple(p for p in match[1].split(",") if p in profiles)


class NodeSettings(Document, ABC):
    """Base class of a scheduler's table in ``mig.toml``: this node's settings under that
    scheduler."""

    node: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    type_pattern: Annotated[str, holding("profile")] = "{profile}"
    """The scheduler's name for slices of a profile; ``{profile}`` stands for the profile."""

    @abstractmethod
    def keeper(self) -> Keeper:
        """Return the keeper, which keeps jobs off the node while its GPUs are repartitioned."""

    @abstractmethod
    def pending(self, profiles: Collection[str]) -> tuple[Demand, ...]:
        """Return the slices of these profiles that pending jobs wait for. Raises SchedulerError."""

    @abstractmethod
    def asked(self, profiles: Collection[str]) -> Iterable[SlicesAsked]:
        """Return the slices requested by all jobs that the scheduler still knows. Raises
        SchedulerError."""
