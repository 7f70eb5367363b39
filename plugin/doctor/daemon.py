"""Doctor's look at the daemon: does it answer, and can the scheduler reach it?"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from berth.pilot.version import VERSION
from berth.plugin.daemon.app import uids_of
from berth.plugin.daemon.client import ask
from berth.plugin.doctor.findings import Finding, Findings, Status
from berth.plugin.doctor.rights import LOOK, WRITE, persons, wall_before
from berth.plugin.site.site import Site

LONG_REFRESHES = 3.0
"""The cluster's state is late when it is older than so many refresh periods."""
_PATIENCE_S = 2.0
_OWN_CHECK = "kill switch"
"""The site file's check names it, with what to do."""


def check_daemon(site: Site) -> Findings:
    """Its answer, its version, the age of what it knows, and its own problems."""
    answer = ask(site.daemon.socket, {"v": 1, "op": "stats"})
    yield Finding(
        "daemon",
        Status.OK,
        f"answers at {site.daemon.socket}, mode {answer['mode']}, {answer['forecasts']} forecasts",
    )
    if answer["version"] != VERSION:
        yield Finding(
            "daemon",
            Status.WARN,
            f"it is version {answer['version']}, and this is {VERSION}",
            "restart it: systemctl restart berth",
        )
    age, patience = answer["state_age_s"], LONG_REFRESHES * site.daemon.state_refresh_s
    if age is None or age > patience:
        seen = "never" if age is None else f"{age:.0f} s ago"
        yield Finding(
            "daemon",
            Status.WARN,
            f"it last read the cluster's state {seen}",
            "does its user have the scheduler's commands on its PATH? see its log",
        )
    problems = {k: v for k, v in answer["problems"].items() if k != _OWN_CHECK}
    if answer["recorder"]["problem"]:
        problems["recorder"] = answer["recorder"]["problem"]
    for name, problem in problems.items():
        yield Finding("daemon", Status.WARN, f"{name}: {problem}", "see its log")


def check_socket(site: Site) -> Findings:
    """May the scheduler's own users go through the folders to the socket, and write to it? May they
    see that there is no kill switch?"""
    path, switch = site.daemon.socket, site.daemon.kill_switch
    for person in persons(uids_of(site) - {0, os.geteuid()}):
        wall = wall_before(path, WRITE, person)
        if wall is not None:
            yield Finding(
                "socket",
                Status.FAIL,
                f"{person.pw_name} may not {wall}: no submission reaches the daemon",
                f"usermod -aG {_group(path.parent)} {person.pw_name}, and restart the scheduler",
            )
        unseen = wall_before(switch, LOOK, person)
        if unseen not in (None, wall):
            yield Finding(
                "kill switch",
                Status.FAIL,
                f"{person.pw_name} may not {unseen}, so cannot see whether {switch} is there: "
                "every job is left alone",
                f"chmod o+x {switch.parent}, or name another daemon.kill_switch",
            )


def check_users(site: Site) -> Findings:
    """Does ``berth serve --users`` take connections? It is a process of its own."""
    path = site.daemon.user_socket
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(_PATIENCE_S)
            peer.connect(str(path))
    except OSError as error:
        yield Finding(
            "users",
            Status.WARN,
            f"nobody serves users at {path} ({error.strerror or error}): they cannot add workloads "
            "or see what was decided for their jobs",
            "systemctl enable --now berth-users, or berth serve --users --site FILE",
        )
    else:
        yield Finding("users", Status.OK, f"they are served at {path}")


def _group(folder: Path) -> str:
    try:
        return folder.group()
    except (KeyError, OSError):
        return "berth"
