"""Names of workloads: ``alice/app`` is alice's own, ``app`` is shared by all users of the site.

A job that names ``app`` gets its user's own workload of that name where there is one, else the
shared one. It never gets another user's: profiles measured, or invented, by bob never affect
alice's jobs.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Container

from berth.pilot.errors import UsageError
from berth.pilot.printable import printable

LONGEST = 128


def caller() -> str:
    """Return the name of the user who runs this command; ``uid:1000`` where the user id has no
    name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the latter from Python 3.13 on
        return f"uid:{os.geteuid()}"


def own_name(user: str, name: str) -> str:
    """Return ``name`` with the user as owner. Raises UsageError for another user's name or one
    too long."""
    owner, slash, _ = name.rpartition("/")
    if slash and owner != user:
        raise UsageError(
            f"{name} would be {owner}'s workload, not yours", hint=f"name it without {owner}/"
        )
    full_name = name if slash else f"{user}/{name}"
    check_name(full_name)
    return full_name


def check_name(name: str) -> None:
    """Raise UsageError for a workload's name that is too long, or that a terminal or a table could
    not show as it is."""
    if len(name) > LONGEST:
        raise UsageError(f"{name[:40]}...: a name with its owner is at most {LONGEST} characters")
    last = name.rpartition("/")[2]
    if not name.isprintable() or not last or last != last.strip():
        raise UsageError(
            f"{printable(name)!r} cannot be a workload's name",
            hint="letters, digits, dots, dashes: a name is one line of printable characters",
        )


def owner_in(name: str) -> str | None:
    """Return the owner that a workload's name contains; None: the workload is shared by all
    users."""
    owner, slash, _ = name.rpartition("/")
    return owner if slash else None


def resolved(user: str, name: str, names: Container[str]) -> str:
    """Return the one of ``names`` that the user means by ``name``: the user's own workload, else
    ``name`` itself."""
    own = f"{user}/{name}"
    return own if own in names else name


def may_use(user: str, name: str) -> bool:
    """Return whether this user's jobs may use the workload: the user's own, or a shared one."""
    owner = owner_in(name)
    return owner is None or owner == user
