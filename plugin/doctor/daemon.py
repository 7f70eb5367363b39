"""Doctor's checks of the daemon: whether it answers, and whether users have the rights they need.

Rights are checked for the daemon's own user, because root is never refused. Refusals by SELinux or
AppArmor are shown where their log can be read.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from berth.pilot.errors import BerthError
from berth.pilot.version import VERSION
from berth.plugin.daemon.app import uids_of
from berth.plugin.findings import (
    LOOK,
    READ,
    WRITE,
    Findings,
    barred,
    fail,
    ok,
    persons,
    wall_before,
    warn,
)
from berth.plugin.first_site.write import PLATFORM_FOLDER
from berth.plugin.site.site import Site
from berth.plugin.store.database import Database

LONG_REFRESHES = 3.0
"""The cluster's state is reported as late when it is older than this many refresh periods."""
_PATIENCE_S = 2.0
_OWN_CHECK = "kill switch"
"""Name of a daemon's problem that another check, that of the site file, reports with advice."""
_OF_SQLITE = ("", "-wal", "-shm")
LOGS = (Path("/var/log/audit/audit.log"), Path("/var/log/kern.log"))
ENFORCING = Path("/sys/fs/selinux/enforce")
_TAIL_BYTES = 2**20
_DENIED = re.compile(r'avc:\s+denied|apparmor="DENIED"')
_LONGEST = 200


def check_daemon(site: Site, answer: Mapping[str, Any] | BerthError) -> Findings:
    """Check the daemon's answer to ``stats``, its version, the age of its cluster state, and its
    own problems. Raises the error that came instead of an answer."""
    if isinstance(answer, BerthError):
        raise answer
    yield ok(
        "daemon",
        f"answers at {site.daemon.socket}, mode {answer['mode']}, {answer['forecasts']} forecasts",
    )
    if answer["version"] != VERSION:
        yield warn(
            "daemon",
            f"it is version {answer['version']}, and this is {VERSION}",
            "restart it: systemctl restart berth",
        )
    if answer["mode"] != site.mode.value:
        yield warn(
            "daemon",
            f"it runs in mode {answer['mode']}, and {site.source} says {site.mode.value}",
            "does it read another site file (systemctl cat berth), or is its log about this one?",
        )
    age, patience = answer["state_age_s"], LONG_REFRESHES * site.daemon.state_refresh_s
    if age is None or age > patience:
        seen = "never" if age is None else f"{age:.0f} s ago"
        yield warn(
            "daemon",
            f"it last read the cluster's state {seen}",
            "does its user have the scheduler's commands on its PATH? see its log",
        )
    problems = {k: v for k, v in answer["problems"].items() if k != _OWN_CHECK}
    if answer["recorder"]["problem"]:
        problems["recorder"] = answer["recorder"]["problem"]
    for name, problem in problems.items():
        yield warn("daemon", f"{name}: {problem}", "see its log")


def check_socket(site: Site) -> Findings:
    """Check that the scheduler's users can reach and write to the socket, and can see whether the
    kill switch exists."""
    path, switch = site.daemon.socket, site.daemon.kill_switch
    for person in persons(uids_of(site) - {0, os.geteuid()}):
        wall = wall_before(path, WRITE, person)
        if wall is not None:
            yield fail(
                "socket",
                f"{person.pw_name} may not {wall}: no submission reaches the daemon",
                f"usermod -aG {_group(path.parent)} {person.pw_name}, and restart the scheduler",
            )
        unseen = wall_before(switch, LOOK, person)
        if unseen not in (None, wall):
            yield fail(
                "kill switch",
                f"{person.pw_name} may not {unseen}, so cannot see whether {switch} is there: "
                "every job is left alone",
                f"chmod o+x {switch.parent}, or name another daemon.kill_switch",
            )


def check_users(site: Site) -> Findings:
    """Check that ``berth serve --users``, a separate process, accepts connections."""
    path = site.daemon.user_socket
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(_PATIENCE_S)
            peer.connect(str(path))
    except OSError as error:
        yield warn(
            "users",
            f"nobody serves users at {path} ({error.strerror or error}): they cannot add workloads "
            "or see what was decided for their jobs",
            "systemctl enable --now berth-users, or berth serve --users --site FILE",
        )
    else:
        yield ok("users", f"they are served at {path}")


def _group(folder: Path) -> str:
    try:
        return folder.group()
    except (KeyError, OSError):
        return "berth"


def check_rights(site: Site) -> Findings:
    """Check that the daemon's user may read the site file and its folder, and write to the
    store."""
    uid = _uid_of_daemon(site)
    if os.geteuid() not in (0, uid):
        yield warn(
            "user",
            f"uid {os.geteuid()} is neither root nor the daemon's user: what fails below may fail "
            "for its missing rights alone",
            "run berth site doctor as root, on the scheduler's host",
        )
        return
    daemon = {uid} if uid else set()
    for path in _configuration(site):
        clauses = [clause for _, clause in barred(path, READ, daemon)]
        if clauses:
            advice = f"chmod o+r {path}, o+x {path.parent}"
            yield fail("site file", f"{clauses[0]}: the daemon does not start again", advice)
            break
    store = Database(site.daemon.store).path
    # SQLite's own files beside the store, too: whoever opened it as root may have made them.
    files = [] if store is None else [store.with_name(store.name + end) for end in _OF_SQLITE]
    for file in files:
        for person, clause in barred(file, WRITE, daemon):
            yield fail(
                "store",
                f"{clause}: the daemon does not start again, and decisions wait in the spool",
                f"chown {person.pw_name}: {store}*",
            )
            return


def _uid_of_daemon(site: Site) -> int | None:
    """Return the owner of the socket, else of the store's folder; None: neither can be seen."""
    store = Database(site.daemon.store).path
    for path in (site.daemon.socket, store and store.parent):
        if path is not None:
            with suppress(OSError):
                return path.stat().st_uid
    return None


def _configuration(site: Site) -> Iterator[Path]:
    """Yield the site file, the platform files beside it and its bundles' files."""
    source = Path(site.source)
    yield source
    yield from sorted((source.parent / PLATFORM_FOLDER).glob("*.json"))
    for bundle in site.bundles:
        yield from sorted(bundle.glob("*"))


def check_denials(logs: tuple[Path, ...] = LOGS, enforcing: Path = ENFORCING) -> Findings:
    """Warn of the last logged SELinux or AppArmor refusal that names Berth; if no log can be
    read, warn where SELinux is enforcing."""
    unread = False
    for log in logs:
        try:
            lines = _tail(log)
        except FileNotFoundError:
            continue
        except OSError:
            unread = True
            continue
        refusals = [line for line in lines if _DENIED.search(line) and "berth" in line.lower()]
        if refusals:
            yield warn(
                "denials",
                f"{len(refusals)} refusals in {log}, the last: {refusals[-1].strip()[:_LONGEST]}",
                "ausearch -m avc -ts recent | audit2allow -w (SELinux), aa-logprof (AppArmor)",
            )
    if unread and _is_on(enforcing):
        yield warn(
            "denials",
            "SELinux is enforcing, and its log may not be read by this user",
            "as root: berth site doctor, or ausearch -m avc | grep berth",
        )


def _tail(log: Path) -> list[str]:
    with log.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - _TAIL_BYTES))
        return stream.read(_TAIL_BYTES).decode("utf-8", "replace").splitlines()


def _is_on(enforcing: Path) -> bool:
    try:
        return enforcing.read_text().strip() == "1"
    except OSError:
        return False
