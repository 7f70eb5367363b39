"""Which past jobs stand for a new one: by its script, else by its user, name and shape.

A key is a digest like a script's fingerprint, so that the daemon looks it up in the same table. The
closest key that has a history counts; a weaker one holds jobs that differ more, so that its
interval is as wide as they are.
"""

from __future__ import annotations

import hashlib
import re

from berth.plugin.scheduler.registry import SCHEDULERS

_DIGITS = re.compile(r"\d+")
_UNNAMED = frozenset(
    ("", "sbatch", "wrap", "bash", "sh", "interactive", "job", "jobscript", *SCHEDULERS.own())
)
"""Names that the scheduler gives, or that say nothing."""
_MINUTE_S = 60.0


def plain_name(name: str) -> str:
    """``run_007.sh`` and ``run_12.sh`` are both ``run_#.sh``; empty where a name says nothing."""
    lowered = name.strip().lower()
    return "" if lowered in _UNNAMED else _DIGITS.sub("#", lowered)[:64]


def keys(user: str, name: str, cores: int, time_limit_s: float | None) -> tuple[str, ...]:
    """Digests of what a job may be matched by, the closest first: name and time limit; name; and,
    for jobs without a telling name, cores and time limit."""
    if not user:
        return ()
    named = plain_name(name)
    limit = "" if time_limit_s is None else str(round(time_limit_s / _MINUTE_S))
    if named:
        return (_digest("limit", user, named, limit), _digest("name", user, named))
    return (_digest("shape", user, str(cores), limit),)


def _digest(*parts: str) -> str:
    text = "\0".join(("berth-history", *parts))
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
