"""Finds the past jobs that resemble a new job: by script and arguments, otherwise by user, name and
resources.

A match key is a digest in the form of a script's fingerprint, so that the daemon looks up both in
one table. The closest key that has past jobs is used. A less close key covers jobs that differ
more, so its predicted interval is wider.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from berth.pilot.run import Run
from berth.plugin.fingerprint import normalised
from berth.plugin.site.programs import telling_name

_DIGITS = re.compile(r"\d+")
_MINUTE_S = 60.0
_LONGEST_COMMAND = 4_096
"""Maximum number of characters read of a script whose job has no telling name."""


class Match(StrEnum):
    """The attributes that a past job shares with a new job, the closest match first."""

    SCRIPT = "script"
    """Match past jobs of the same user, normalised script text and arguments."""
    ARGUMENTS = "arguments"
    """Match past jobs of the same user, job name and script arguments."""
    SIMILAR = "similar"
    """Match the same user, job name and script arguments; ignore numbers in the arguments."""
    LIMIT = "limit"
    """Match past jobs of the same user, job name and time limit."""
    NAME = "name"
    """Match past jobs of the same user and job name."""
    SHAPE = "shape"
    """Match the same user, number of cores and time limit, for jobs without a telling name."""
    ACCOUNT = "account"
    """The same account and job name, of any user; only where the site trusts all users."""


def plain_name(name: str) -> str:
    """Return a job's name in small letters with digits replaced: ``run_#.sh`` for
    ``run_007.sh``; empty for a name that says nothing about the program."""
    return _DIGITS.sub("#", telling_name(name))[:64]


def known_name(name: str, program: str) -> str:
    """Return the name by which a job's program is known: that of a recognised program, else the
    job's ``plain_name``."""
    return program or plain_name(name)


@dataclass(frozen=True, slots=True)
class JobDescription:
    """A job's name, and digests of its script and arguments; an empty text: unknown."""

    name: str = ""
    """The job's name as its user wrote it."""
    script: str = ""
    """The digest of the normalised script text."""
    arguments: str = ""
    """The digest of the script's arguments, or of the command given to ``sbatch --wrap``."""
    similar: str = ""
    """The digest of the arguments with numbers ignored."""
    program: str = ""
    """The program's name, where the site's rules recognise it (``plugin.history.programs``)."""


def describe_job(name: str, arguments: Sequence[str], script: str | None = None) -> JobDescription:
    """Return a job's description from its name, its script's arguments and, if known, the script's
    text.

    For a script without a telling name and without arguments (a command that the scheduler
    wrapped), the script's text is used in place of the arguments.
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
    described_job: JobDescription | Run,
    *,
    account: str = "",
) -> Iterator[tuple[Match, str]]:
    """Yield the match types and digests by which past jobs of this user can match, the closest
    first.

    The key by account covers all users of the account; jobs are stored under it only where the site
    trusts all users.
    """
    if not user:
        return
    named = known_name(described_job.name, described_job.program)
    arguments = described_job.arguments
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
    """Return the match key (a digest) of one user's jobs of one workload."""
    return _digest("workload", user, workload)


_UNKNOWN = "history-unknown-program-on-"


def unknown_program(*, uses_gpus: bool) -> str:
    """Return the name of the workload that stands for jobs of programs without past jobs."""
    return f"{_UNKNOWN}{'gpus' if uses_gpus else 'cpus'}"


def is_unknown_program(workload: str) -> bool:
    """Return whether a workload stands for jobs of programs without past jobs: what one of them
    needed says nothing about another."""
    return workload.startswith(_UNKNOWN)


def _digest(*parts: str) -> str:
    text = "\0".join(("berth-history", *parts))
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
