"""Guesses what a partition is for: a first site file offers Berth only those for all jobs.

Names are those of the public documentation of some thirty sites; an administrator checks the guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

from berth.plugin.scheduler.facts import QueueFacts


class Role(StrEnum):
    """What a partition is for, unless it is for all jobs."""

    DEBUG = "debugging"
    INTERACTIVE = "interactive work"
    PREEMPTIBLE = "jobs that may be preempted"
    LARGE_MEMORY = "jobs with much memory"


_WORDS = {
    Role.DEBUG: "debug dbg test testing devel dev development express quick",
    Role.INTERACTIVE: "interactive inter visual viz vis jupyter ood gui desktop",
    Role.PREEMPTIBLE: "preempt preemptible preemptable scavenge scavenger spot requeue lowprio "
    "guest opportunistic standby",
    Role.LARGE_MEMORY: "himem highmem bigmem largemem lmem hugemem mem fat smp xlarge",
}
_ROLES = {word: role for role, words in _WORDS.items() for word in words.split()}
_ANYWHERE = (
    "debug", "devel", "interactive", "preempt", "scavenge",
    "himem", "highmem", "bigmem", "largemem", "hugemem",
)  # fmt: skip
"""Words that also tell the role inside another (``gpudebug``)."""
SHORT_S = 2 * 3600.0
"""Longest time limit of a partition that is for trying things out, where others allow ten times as
much."""


def role_of(queue: QueueFacts, queues: Iterable[QueueFacts]) -> tuple[Role, str] | None:
    """Return what the queue is for and why that is assumed; None: it is for all jobs.

    ``queues``: all queues of the cluster. A default queue is for all jobs, whatever its name.
    """
    if queue.is_default:
        return None
    name = queue.name.lower()
    words = [word for word in re.split(r"[^a-z]+", name.replace("high-mem", "himem")) if word]
    role = next((_ROLES[word] for word in words if word in _ROLES), None)
    role = role or next((_ROLES[word] for word in _ANYWHERE if word in name), None)
    if role is not None:
        return role, "by its name"
    limit_s = queue.max_time_s
    longest_s = max((q.max_time_s or float("inf") for q in queues), default=0.0)
    if limit_s is not None and limit_s <= SHORT_S and longest_s >= 10 * limit_s:
        return Role.DEBUG, f"its jobs run for at most {limit_s / 60:g} minutes"
    return None
