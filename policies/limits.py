"""Limits on the resources of one job.

A scheduler's front end gives the ``Limit``s of a user in a queue (``Rights``); this module checks a
job against them in scheduler-neutral terms. Of limits on all jobs of a user or account together,
only the amounts that a single job exceeds are checked: a job below them merely waits, and an array
runs fewer tasks at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Scope(StrEnum):
    """What the amount of a Limit is counted over."""

    JOB = "a job"
    NODE = "a node"
    LEAST = "at least"
    """The job must request at least the amount."""
    SECONDS = "seconds"
    """The resource multiplied by the job's time limit, in resource-seconds."""
    TIME = "time"
    """The time limit itself, in seconds; no resource."""
    RUNNING = "jobs at a time"
    """The number of running jobs of a user or account; a single job never exceeds it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of at most (or at least) ``amount`` of ``resource``, counted by ``scope``."""

    scope: Scope
    amount: float
    source: str
    """Who sets the limit, for the user's sentence: ``account physics``."""
    resource: str = ""
    """``cpu``, ``mem`` (MiB), ``node``, ``gres/gpu``, ``gres/gpu:h200``."""
    together: bool = False
    """True: all jobs of the user or account count together. False: each job counts alone."""


@dataclass(frozen=True, slots=True)
class Denied:
    """The user may not use a queue, or the user's rights are not known; ``sentence`` says which."""

    sentence: str


class Rights(Protocol):
    """The limits of all users in all queues. Two objects with equal digests give equal answers."""

    @property
    def digest(self) -> str:
        """Return a digest of all limits."""
        ...

    def limits(
        self, user: str, account: str | None, qos: str | None, queue: str
    ) -> tuple[Limit, ...] | Denied:
        """Return the limits on a job of that user in ``queue``, or Denied with the reason."""
        ...


def broken(
    limits: tuple[Limit, ...],
    holds: Mapping[str, float],
    nodes: int,
    time_limit_s: float | None,
) -> Limit | None:
    """Return the first limit that a job breaks; None: the job is within all limits.

    ``holds``: total of each resource that the job would use. ``time_limit_s`` None: unknown; limits
    on resource-seconds then count as broken for every job that uses the resource.
    """
    for limit in limits:
        if limit.scope is Scope.RUNNING:
            continue
        held = holds.get(limit.resource, 0.0)
        if limit.scope is Scope.TIME:
            over = time_limit_s is not None and time_limit_s > limit.amount
        elif limit.scope is Scope.NODE:
            over = -(-held // max(1, nodes)) > limit.amount
        elif limit.scope is Scope.LEAST:
            over = held < limit.amount
        elif limit.scope is Scope.SECONDS:
            over = held > 0 and (time_limit_s is None or held * time_limit_s > limit.amount)
        else:
            over = held > limit.amount
        if over:
            return limit
    return None
