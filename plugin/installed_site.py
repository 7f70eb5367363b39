"""Finds the site file and the store that a command uses where the user names none."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from berth.pilot.errors import BerthError, UsageError
from berth.plugin.site_file import SITE_FILE, find_site

if TYPE_CHECKING:
    from berth.plugin.site.site import Site
    from berth.plugin.store import Store
    from berth.plugin.users.client import RemoteStore


def store_url_of(site: Site | None, store_url: str | None) -> str:
    """Return the named store's URL, else the site's. Raises UsageError where neither is known."""
    url = store_url or (site.daemon.store if site else None)
    if url is None:
        raise UsageError(
            "there is neither a site file nor a store to work on",
            hint="name one: --site FILE, or BERTH_STORE=PATH in the environment; "
            f"or make {SITE_FILE} with: berth site init",
        )
    return url


@dataclass(frozen=True, slots=True)
class Installation:
    """The site file and the store that a command uses; None: the installed ones."""

    site_file: Path | None = None
    store_url: str | None = None

    def site(self) -> Site | None:
        """Load the named site file, or else the installed one; None: no file is named or installed.

        Raises DocumentError.
        """
        return find_site(self.site_file)

    def needed_site(self) -> Site:
        """Return the named or installed site. Raises UsageError where there is none, and
        DocumentError.
        """
        site = self.site()
        if site is None:
            raise UsageError(
                f"there is no {SITE_FILE}", hint="make one: berth site init; or give --site FILE"
            )
        return site

    def site_of_store(self) -> Site | None:
        """Load the store's site; None where the store was named by its own URL."""
        return None if self.store_url else self.site()

    def url(self) -> str:
        """Return the store's URL. Raises UsageError where none is known."""
        return store_url_of(self.site_of_store(), self.store_url)

    def store(self, *, create: bool = True) -> Store:
        """Open the store's database to write to it, not through the users' socket.

        ``create``: create the SQLite file where it does not exist, and upgrade an older schema;
        False raises UsageError or StoreError instead.
        """
        from berth.plugin.store import Store  # noqa: PLC0415 - SQLAlchemy is slow to import

        return Store.open(self.url() if create else self._url_of_existing(), create=create)

    def reading(self, *, busy_timeout_s: float | None = None) -> Store:
        """Open the store's database only to read it, not through the users' socket.

        ``busy_timeout_s``: seconds to wait for a writer; None: the store's default. Raises
        UsageError and StoreError.
        """
        from berth.plugin.store import Store  # noqa: PLC0415 - SQLAlchemy is slow to import
        from berth.plugin.store.database import BUSY_TIMEOUT_S  # noqa: PLC0415

        timeout_s = busy_timeout_s or BUSY_TIMEOUT_S
        return Store.reading(self._url_of_existing(), busy_timeout_s=timeout_s)

    def _url_of_existing(self) -> str:
        """Return the store's URL. Raises UsageError where it is that of a file that is not
        there."""
        from berth.plugin.store.database import Database  # noqa: PLC0415 - SQLAlchemy is slow

        url = self.url()
        path = Database(url).path
        if path is not None and not path.exists():
            raise UsageError(
                f"the store {path} does not exist",
                hint="check --store, BERTH_STORE, or daemon.store of the site file; the daemon "
                "makes a new store, and so does: berth site store upgrade",
            )
        return url

    def users_socket(self) -> Path | None:
        """Return the socket through which this user must use the store; None: open the store
        directly.

        The result is None where a store is named, where no such socket exists, and for root and the
        daemon's user.
        """
        site = self.site_of_store()
        if site is None:
            return None
        try:
            owner = site.daemon.user_socket.stat().st_uid
        except OSError:
            return None
        return None if os.geteuid() in (0, owner) else site.daemon.user_socket

    def view(self, *, busy_timeout_s: float | None = None) -> Store | RemoteStore:
        """Open the store only to read it, directly or through the users' socket."""
        return self._remote() or self.reading(busy_timeout_s=busy_timeout_s)

    def changed(self, *, create: bool = False) -> Store | RemoteStore:
        """Open the store to write to it, directly or through the users' socket; ``create`` as for
        ``store``."""
        return self._remote() or self.store(create=create)

    def _remote(self) -> RemoteStore | None:
        path = self.users_socket()
        if path is None:
            return None
        from berth.plugin.users.client import RemoteStore  # noqa: PLC0415 - where it is asked

        return RemoteStore(path)

    def view_if_any(self) -> Store | RemoteStore | None:
        """Open the store as ``view`` does; None: there is none, or it cannot be read."""
        try:
            return self.view()
        except BerthError:
            return None
