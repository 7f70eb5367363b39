"""Which past jobs stand for a new one: by its script and arguments, else by user, name and shape.

A key is a digest like a script's fingerprint, so that the daemon looks it up in the same table. The
closest key that has a history counts; a weaker one holds jobs that differ more, so that its
interval is as wide as they are.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from berth.plugin.daemon.fingerprint import normalised
from berth.plugin.scheduler.registry import SCHEDULERS

_DIGITS = re.compile(r"\d+")
_UNNAMED = frozenset(
    ("", "sbatch", "wrap", "bash", "sh", "interactive", "job", "jobscript", *SCHEDULERS.own())
)
"""Names that the scheduler gives, or that say nothing."""
_MINUTE_S = 60.0
_LONGEST_COMMAND = 4_096
"""Characters of a script without a telling name that are looked at."""


class Match(StrEnum):
    """What a past job has in common with a new one, the closest first."""

    SCRIPT = "script"
    """User, the script's text in its normal form, and its arguments."""
    ARGUMENTS = "arguments"
    """User, name and the script's arguments."""
    SIMILAR = "similar"
    """User, name and arguments but for numbers."""
    LIMIT = "limit"
    """User, name and time limit."""
    NAME = "name"
    """User and name."""
    SHAPE = "shape"
    """User, cores and time limit, of jobs without a telling name."""
    ACCOUNT = "account"
    """Account and name, whoever's: where the site trusts all users."""


def plain_name(name: str) -> str:
    """Return ``run_#.sh`` for both ``run_007.sh`` and ``run_12.sh``; empty where a name says
    nothing."""
    lowered = name.strip().lower()
    return "" if lowered in _UNNAMED else _DIGITS.sub("#", lowered)[:64]


@dataclass(frozen=True, slots=True)
class JobDescription:
    """What a job was called and given, in digests where its user wrote it; empty: not known."""

    name: str = ""
    """The name as its user wrote it."""
    script: str = ""
    """The digest of the script's text in its normal form."""
    arguments: str = ""
    """The digest of the script's arguments, or of the command that it wraps."""
    similar: str = ""
    """The same digest with numbers left out."""


def describe_job(name: str, arguments: Sequence[str], script: str | None = None) -> JobDescription:
    """Describe a job by its name, the arguments of its script and the script's text, where it is
    known.

    For a script without a telling name (a command that the scheduler wrapped) its text stands for
    the arguments.
    """
    text = " ".join(" ".join(arguments).split())
    normal = normalised(script) if script else ""
    if not text and script and not plain_name(name):
        text = normalised(script[:_LONGEST_COMMAND]).partition("\n")[2]
    return JobDescription(
        name,
        _digest("text", normal) if normal else "",
        _digest("exact", text) if text else "",
        _digest("similar", _DIGITS.sub("#", text)) if text else "",
    )


def match_keys(
    user: str,
    cores: int,
    time_limit_s: float | None,
    described_job: JobDescription,
    *,
    account: str = "",
) -> Iterator[tuple[Match, str]]:
    """Yield digests of what a job may be matched by, the closest first.

    The key by account is of all users of it: only where the site trusts them is anything stored
    under it.
    """
    if not user:
        return
    named, arguments = plain_name(described_job.name), described_job.arguments
    limit = "" if time_limit_s is None else str(round(time_limit_s / _MINUTE_S))
    if described_job.script:
        yield Match.SCRIPT, _digest("script", user, described_job.script, arguments)
    if arguments:
        yield Match.ARGUMENTS, _digest("arguments", user, named, arguments)
        yield Match.SIMILAR, _digest("similar", user, named, described_job.similar)
    if named:
        yield Match.LIMIT, _digest("limit", user, named, limit)
        yield Match.NAME, _digest("name", user, named)
        if account:
            yield Match.ACCOUNT, _digest("account", account, named)
    else:
        yield Match.SHAPE, _digest("shape", user, str(cores), limit)


def workload_key(user: str, workload: str) -> str:
    """Return the key of a user's jobs of one workload."""
    return _digest("workload", user, workload)


def _digest(*parts: str) -> str:
    text = "\0".join(("berth-history", *parts))
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
