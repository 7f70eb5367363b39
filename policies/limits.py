"""Limits on what one job may hold, whoever sets them, and the fair shares of users.

A scheduler's front end gives the ``Limit``s that hold for a submitter in a queue (``Rights``);
whether a job that would be sent there stays within them is decided here, in no scheduler's terms.
Of limits on everything that a user or an account holds together, only what one job alone exceeds is
looked at: the rest is a matter of waiting, and of how many tasks of an array run at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Protocol


class Scope(StrEnum):
    """The way in which a Limit counts."""

    JOB = "a job"
    NODE = "a node"
    LEAST = "at least"
    """A job must hold so much."""
    SECONDS = "seconds"
    """Amount times the time limit."""
    TIME = "time"
    """The time limit itself, in seconds; no resource."""
    RUNNING = "jobs at a time"
    """Jobs of a user or an account that run; no resource, and no job alone is over it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of at most (or at least) ``amount`` of ``resource``, counted by ``scope``."""

    scope: Scope
    amount: float
    source: str
    """The one who sets it, for the user's sentence: ``account physics``."""
    resource: str = ""
    """``cpu``, ``mem`` (MiB), ``node``, ``gres/gpu``, ``gres/gpu:h200``."""
    together: bool = False
    """All jobs of the user or the account count, not each alone."""


@dataclass(frozen=True, slots=True)
class Denied:
    """The submitter may not use a queue at all, or nobody knows; with a sentence."""

    sentence: str


class Rights(Protocol):
    """The limits of all submitters in all queues. Equal digests: equal answers."""

    @property
    def digest(self) -> str:
        """Return the digest of all that it holds."""
        ...

    def limits(
        self, user: str, account: str | None, qos: str | None, queue: str
    ) -> tuple[Limit, ...] | Denied:
        """Return the limits on a job of that user in ``queue``, or why it cannot be there."""
        ...


def broken(
    limits: tuple[Limit, ...],
    holds: Mapping[str, float],
    nodes: int,
    time_limit_s: float | None,
) -> Limit | None:
    """Return the first limit that a job breaks which holds so much in all; None: it keeps them all.

    ``time_limit_s`` None: not known, then limits on time cannot be judged and count as broken only
    where nothing at all may be held.
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


AT_SHARE = 1.0
"""Use of users of whom nothing is known."""


@dataclass(frozen=True)
class UsedShares:
    """Recent use over fair share, by user. 1: just its share; 0: nothing. Not to be changed."""

    by_user: Mapping[str, float]

    def of(self, user: str) -> float:
        """Return the user's; ``AT_SHARE`` where nothing is known."""
        return self.by_user.get(user, AT_SHARE)

    @cached_property
    def digest(self) -> str:
        """Return a digest that is equal for equal shares."""
        text = repr(sorted(self.by_user.items())).encode()
        return hashlib.blake2b(text, digest_size=8).hexdigest()
