"""Who looks at the page, and what of the store they may see."""

from __future__ import annotations

from dataclasses import dataclass

from flask import abort, request

from berth.pilot.errors import BerthError
from berth.plugin.store import DecisionRecord, Store
from berth.plugin.ui.settings import UiSettings
from berth.plugin.users.client import RemoteStore
from berth.plugin.workloads.names import may_use

PATIENCE_S = 1.0
"""A view waits so long for a store that is locked: then it says so."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """One who looks. Schedulers show at most others' jobs beside one's own; here it is one's own
    alone, so that no setting of theirs (such as Slurm's PrivateData) can be undone.
    """

    name: str | None
    """None: whoever started the page, with that user's rights on the store."""
    admin: bool = False

    @property
    def only(self) -> str | None:
        """The user whose jobs are shown; None: all that the store shows."""
        return None if self.name is None or self.admin else self.name

    def may_see(self, record: DecisionRecord) -> bool:
        """Whether this decision may be shown."""
        return self.only is None or record.user == self.only

    def may_use(self, workload: str) -> bool:
        """Whether a workload is theirs or shared: others' bear their owner's name."""
        return self.only is None or may_use(self.only, workload)


def viewer_of(settings: UiSettings) -> Viewer:
    """By the reverse proxy's header where one is configured; nobody without it."""
    if settings.user_header is None:
        return Viewer(None)
    name = request.headers.get(settings.user_header, "")
    if not name:
        abort(401, "The reverse proxy did not say who asks.")
    return Viewer(name, name in settings.admins)


def open_store(settings: UiSettings) -> Store | RemoteStore | None:
    """What the page reads from; None: the demo site has none. Raises BerthError."""
    from berth.plugin.cli.options.where import open_view  # noqa: PLC0415 - SQLAlchemy is slow to import

    if settings.site_file is None and settings.store_url is None:
        return None
    return open_view(settings.site_file, settings.store_url, busy_timeout_s=PATIENCE_S)


def whole_store(store: Store | RemoteStore | None, viewer: Viewer) -> Store:
    """The store itself. Raises BerthError for a user who may see their own jobs alone."""
    if store is None:
        raise BerthError("the demo site has no store", hint="start with: berth ui --site FILE")
    if viewer.only is not None or not isinstance(store, Store):
        raise BerthError("figures of the whole site are for its administrators")
    return store
