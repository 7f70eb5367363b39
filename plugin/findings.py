"""The results of checks of the installation, and the check of a user's rights to a file.

``berth site doctor`` prints findings; every ``check_...`` function yields them.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

LOOK, WRITE, READ = 0, 2, 4
"""Rights to check: to see whether a file exists; to write to it (or connect); to read it."""
_ENTER = 1
_WORDS = {WRITE: "write to", READ: "read"}


class Status(StrEnum):
    """The outcome of one of the doctor's checks."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's output."""

    check: str
    status: Status
    text: str
    advice: str | None = None


Findings = Iterator[Finding]


def ok(check: str, text: str) -> Finding:
    """Return a finding with status ``ok``."""
    return Finding(check, Status.OK, text)


def warn(check: str, text: str, advice: str | None) -> Finding:
    """Return a finding with status ``warn``: something needs attention; ``advice`` says what to
    do."""
    return Finding(check, Status.WARN, text, advice)


def fail(check: str, text: str, advice: str | None) -> Finding:
    """Return a finding with status ``fail``: jobs cannot be placed; ``advice`` says what to do."""
    return Finding(check, Status.FAIL, text, advice)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by status, failures first; those of one status stay in their order."""
    statuses = [Status.FAIL, Status.WARN, Status.OK]
    return sorted(findings, key=lambda finding: statuses.index(finding.status))


def persons(uids: Iterable[int]) -> Iterator[pwd.struct_passwd]:
    """Yield the password entries of those users that this host knows."""
    for uid in sorted(uids):
        try:
            yield pwd.getpwuid(uid)
        except KeyError:
            continue


def barred(
    path: Path, right: int, uids: Iterable[int], groups: Set[int] | None = None
) -> Iterator[tuple[pwd.struct_passwd, str]]:
    """Yield the users without a right to a file, each with a clause: ``slurm may not enter
    /run/berth``.

    ``groups``: group ids of a running process; None: all groups the user is in now.
    """
    for person in persons(uids):
        wall = wall_before(path, right, person, groups)
        if wall is not None:
            yield person, f"{person.pw_name} may not {wall}"


def wall_before(
    path: Path, right: int, person: pwd.struct_passwd, groups: Set[int] | None = None
) -> str | None:
    """Return what the user may not do with the file or a folder above it: ``enter /run/berth``.

    ``groups``: group ids of a running process; None: all groups the user is in now. Returns None
    where nothing is refused, or the file does not exist.
    """
    if groups is None:
        groups = set(os.getgrouplist(person.pw_name, person.pw_gid))
    try:
        return next(_walls(path, right, person.pw_uid, groups), None)
    except FileNotFoundError:
        return None


def _walls(path: Path, right: int, uid: int, groups: Set[int]) -> Iterator[str]:
    for folder in reversed(path.absolute().parents):
        if not _may(folder.stat(), _ENTER, uid, groups):
            yield f"enter {folder}"
    if right and not _may(path.stat(), right, uid, groups):
        yield f"{_WORDS[right]} {path}"


def _may(status: os.stat_result, bit: int, uid: int, groups: Set[int]) -> bool:
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid == uid:
        return bool(mode >> 6 & bit)
    if status.st_gid in groups:
        return bool(mode >> 3 & bit)
    return bool(mode & bit)
