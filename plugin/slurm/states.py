"""Slurm's words for the states of jobs, and Berth's."""

from __future__ import annotations

_STATES = {
    "PENDING": "pending",
    "REQUEUED": "pending",
    "CONFIGURING": "pending",
    "RUNNING": "running",
    "COMPLETING": "running",
    "SUSPENDED": "running",
    "COMPLETED": "completed",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "OUT_OF_MEMORY": "out-of-memory",
    "CANCELLED": "cancelled",
    "FAILED": "failed",
    "NODE_FAIL": "failed",
    "BOOT_FAIL": "failed",
    "PREEMPTED": "cancelled",
}
_TURN = frozenset(("None", "Priority", "Resources", "", "Nodes required for job are DOWN"))
"""Reasons of jobs that wait for their turn or for room, up to the first comma. The last goes on
``DRAINED or reserved for jobs in higher priority partitions``: so wait jobs of several partitions.
"""
_RESERVED = "Reserved for maintenance"
"""``ReqNodeNotAvail, ...``: its nodes will be reserved before it would have ended."""

_CLOSED = {
    "DOWN": "takes jobs and starts none",
    "DRAIN": "takes no new jobs",
    "INACTIVE": "takes no jobs and starts none",
}
"""States of a partition beside UP, and what they mean (slurm.conf, ``State``)."""


def closed_as(state: str) -> str | None:
    """``INACTIVE: takes no jobs and starts none`` of a partition's state; None: it is up."""
    if state == "UP":
        return None
    meaning = _CLOSED.get(state)
    return f"{state}: {meaning}" if meaning else state


def state_of(text: str) -> str:
    """``CANCELLED by 1000`` is ``cancelled``."""
    return _STATES.get(text.partition(" ")[0].rstrip("+"), "unknown")


def waits_for_room(reason: str) -> bool:
    """Whether a pending job waits for its turn or for room, and for nothing else."""
    words = reason.strip("()").replace("_", " ")
    return words.partition(",")[0] in _TURN or words.endswith(_RESERVED)
