"""Doctor's look at what the daemon's own user may read and write: root sees no such fault."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

from berth.plugin.doctor.findings import Finding, Findings, Status
from berth.plugin.doctor.rights import READ, WRITE, persons, wall_before
from berth.plugin.site.site import Site
from berth.plugin.site.write import PLATFORM_FOLDER
from berth.plugin.store.database import Database


def check_rights(site: Site) -> Findings:
    """May the daemon's user read the site file with its folder, and write to the store?"""
    for person in _users_of_daemon(site):
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


def _users_of_daemon(site: Site) -> Iterator[pwd.struct_passwd]:
    """Whose the socket is; without one, whose the store's folder is. Nobody for root and us."""
    store = Database(site.daemon.store).path
    for path in (site.daemon.socket, store and store.parent):
        if path is not None and path.exists():
            yield from persons({path.stat().st_uid} - {0, os.geteuid()})
            return


def _configuration(site: Site) -> Iterator[Path]:
    """The site file, the platforms beside it and its bundles."""
    source = Path(site.source)
    yield source
    yield from sorted((source.parent / PLATFORM_FOLDER).glob("*.json"))
    for bundle in site.bundles:
        yield from sorted(bundle.glob("*"))
