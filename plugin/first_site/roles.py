"""Guesses what a partition is for: a first site file offers Berth only those for all jobs.

Names are those of the public documentation of some thirty sites; an administrator checks the guess.
"""

from __future__ import annotations

import re
from enum import StrEnum

from berth.plugin.scheduler.facts import ClusterFacts, QueueFacts


class Role(StrEnum):
    """Says what a partition is for, unless it is for all jobs."""

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
"""Longest time limit of a partition that is for trying things out, where others of its nodes' allow
ten times as much."""


def role_of(queue: QueueFacts, facts: ClusterFacts) -> tuple[Role, str] | None:
    """Return what the queue is for and why that is assumed; None: it is for all jobs.

    A default queue is for all jobs, whatever its name. Its time limit alone tells only of a queue
    all of whose nodes another queue has for longer.
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
    if limit_s is None or limit_s > SHORT_S:
        return None
    longer = {
        q.name for q in facts.queues.values() if (q.max_time_s or float("inf")) >= 10 * limit_s
    }
    if all(longer & set(node.queues) for node in facts.nodes if queue.name in node.queues):
        return Role.DEBUG, f"its jobs run for at most {limit_s / 60:g} minutes"
    return None
