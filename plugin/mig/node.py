"""The interface between MIG partitioning and the node's scheduler: keep jobs off the node, publish
its slices, read the jobs that request slices.

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
"""``{"old": ..., "new": ...}``: for each layout, the data that the keeper needs to publish it."""
_WILL_DO = re.compile(r"(?:^|\s)berth/1 .*?\bslices=([^\s]+)")


class Keeper(Protocol):
    """Keeps new jobs off the node and publishes its slices to the scheduler. All methods raise
    BerthError on failure."""

    def allocated(self, fleet: Fleet) -> frozenset[tuple[str, Instance]]:
        """Return the instances allocated to jobs, as pairs of GPU UUID and instance."""
        ...

    def prepare(self, fleet: Fleet, target: Mapping[str, Layout]) -> Notice:
        """Check that the new layouts (by GPU UUID) can be published, and return the notice for
        the journal. Raises PlanRefused; nothing is changed."""
        ...

    def drain(self, reason: str) -> None:
        """Drain the node: no new job starts there, running jobs continue."""
        ...

    def publish(self, part: Any, fleet: Fleet) -> None:
        """Publish a layout to the scheduler and wait until the scheduler has taken it over.
        ``part`` is the notice's ``old`` or ``new``."""
        ...

    def release(self, reason: str) -> None:
        """Undo the drain that has this reason; a drain with another reason stays."""
        ...


class NoKeeper:
    """A keeper for nodes whose slices no scheduler allocates."""

    def allocated(self, fleet: Fleet) -> frozenset[tuple[str, Instance]]:
        """Return the empty set: no scheduler allocates instances."""
        return frozenset()

    def prepare(self, fleet: Fleet, target: Mapping[str, Layout]) -> Notice:
        """Return an empty notice: there is no scheduler to inform."""
        return {"old": None, "new": None}

    def drain(self, reason: str) -> None:
        """Do nothing: there is no scheduler whose jobs must be kept off."""

    def publish(self, part: Any, fleet: Fleet) -> None:
        """Do nothing: there is no scheduler to inform."""

    def release(self, reason: str) -> None:
        """Do nothing: nothing was drained."""


class Asked(Document):
    """A job's slice request: ``count`` slices, each of any of these MIG profiles."""

    job: str
    submit_s: float
    profiles: tuple[str, ...] = Field(min_length=1)
    count: int = Field(ge=1)
    ran: bool = True
    """False: the job was still pending when it was last seen."""


def stamped_profiles(stamp: str, profiles: Collection[str]) -> tuple[str, ...]:
    """Return those of ``profiles`` that suit the job according to ``stamp``, the comment that
    Berth's submit filter wrote; empty if the comment names none."""
    match = _WILL_DO.search(stamp)
    return () if match is None else tuple(p for p in match[1].split(",") if p in profiles)


class NodeSettings(Document, ABC):
    """This node's settings in its scheduler: a table of ``mig.toml`` named after the scheduler,
    which defines the fields."""

    node: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    type_pattern: str = "{profile}"
    """The scheduler's name for slices of a profile; ``{profile}`` stands for the profile's name."""

    @field_validator("type_pattern")
    @classmethod
    def _profiled(cls, value: str) -> str:
        if value.count("{") != 1 or "{profile}" not in value:
            raise ValueError("must hold {profile} once")
        return value

    @abstractmethod
    def keeper(self) -> Keeper:
        """Return the keeper that keeps jobs off the node while its GPUs are repartitioned."""

    @abstractmethod
    def pending(self, profiles: Collection[str]) -> tuple[Demand, ...]:
        """Return the demands of pending jobs for slices of these profiles. Raises
        SchedulerError."""

    @abstractmethod
    def asked(self, profiles: Collection[str]) -> Iterable[Asked]:
        """Return the slice requests of all jobs that the scheduler still knows. Raises
        SchedulerError."""
