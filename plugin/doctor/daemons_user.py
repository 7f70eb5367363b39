"""Doctor's look at what the daemon's own user may read and write: root sees no such fault."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from berth.plugin.doctor.findings import Finding, Findings, Status
from berth.plugin.doctor.rights import READ, WRITE, persons, wall_before
from berth.plugin.site.site import Site
from berth.plugin.site.write import PLATFORM_FOLDER
from berth.plugin.store.database import Database


def check_rights(site: Site) -> Findings:
    """May the daemon's user read the site file with its folder, and write to the store?"""
    uid = _uid_of_daemon(site)
    if os.geteuid() not in (0, uid):
        yield Finding(
            "user",
            Status.WARN,
            f"uid {os.geteuid()} is neither root nor the daemon's user: what fails below may fail "
            "for its missing rights alone",
            "run berth doctor as root, on the scheduler's host",
        )
        return
    for person in persons({uid} if uid else ()):
        for path in _configuration(site):
            wall = wall_before(path, READ, person)
            if wall is not None:
                yield Finding(
                    "site file",
                    Status.FAIL,
                    f"{person.pw_name} may not {wall}: the daemon does not start again",
                    f"chmod o+r {path}, o+x {path.parent}",
                )
                break
        store = Database(site.daemon.store).path
        wall = None if store is None else wall_before(store, WRITE, person)
        if wall is not None:
            yield Finding(
                "store",
                Status.FAIL,
                f"{person.pw_name} may not {wall}: the daemon does not start again, and decisions "
                "wait in the spool",
                f"chown {person.pw_name}: {store}*",
            )


def _uid_of_daemon(site: Site) -> int | None:
    """Whose the socket is; without one, whose the store's folder is. None: neither is seen."""
    store = Database(site.daemon.store).path
    for path in (site.daemon.socket, store and store.parent):
        if path is not None:
            with suppress(OSError):
                return path.stat().st_uid
    return None


def _configuration(site: Site) -> Iterator[Path]:
    """The site file, the platforms beside it and its bundles."""
    source = Path(site.source)
    yield source
    yield from sorted((source.parent / PLATFORM_FOLDER).glob("*.json"))
    for bundle in site.bundles:
        yield from sorted(bundle.glob("*"))
