"""Objects that the views share: the site, the forecaster, the store, and the viewer's rights.

Uploaded workloads are kept in memory for a while, so that their results have a link: each viewer's
last few, until the process ends.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from flask import abort, current_app, g, request

from berth.pilot.errors import BerthError
from berth.plugin.forecasting import forecaster_for
from berth.plugin.installed_site import Installation
from berth.plugin.site import Site, demo_site, load_site
from berth.plugin.store import DecisionRecord, Store
from berth.plugin.store.records import WorkloadRecord
from berth.plugin.ui.guard import UiSettings
from berth.plugin.users.client import RemoteStore
from berth.plugin.workloads.names import may_use
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.workload import Workload

MOST = 200
MOST_OF_ONE = 20
MOST_BYTES = 256 * 2**20
PATIENCE_S = 1.0
"""Seconds that a view waits for a locked store before it shows the problem."""
DAEMON_S = 0.3
"""Seconds that a view waits for the daemon's answer."""
KEY = "berth"
_STORE = "berth_store"


class RecentUploads:
    """The last uploaded workloads of every viewer, by digest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str | None, str], Workload] = OrderedDict()

    def put(self, viewer: str | None, workload: Workload) -> str:
        """Store an uploaded workload in memory, and return the key for its link."""
        key = workload.digest.removeprefix("sha256:")[:32]
        with self._lock:
            self._kept[viewer, key] = workload
            self._kept.move_to_end((viewer, key))
            own = [key_held for key_held in self._kept if key_held[0] == viewer]
            for key_held in own[:-MOST_OF_ONE]:
                del self._kept[key_held]
            while len(self._kept) > 1 and (len(self._kept) > MOST or self._bytes() > MOST_BYTES):
                self._kept.popitem(last=False)
        return key

    def get(self, viewer: str | None, key: str) -> Workload | None:
        """Return the workload that this viewer uploaded; None: unknown, or dropped since."""
        with self._lock:
            return self._kept.get((viewer, key))

    def _bytes(self) -> int:
        """Return an estimate of the bytes that the workloads use."""
        return sum(_size(workload) for workload in self._kept.values())


def _size(workload: Workload) -> int:
    lines: tuple[str, ...] = getattr(workload.document, "graph", ())
    return sum(map(len, lines))


@dataclass(frozen=True, slots=True)
class Viewer:
    """The user who looks at the page, and that user's rights.

    Some schedulers also show other users' jobs. A viewer here sees only own jobs, so that the page
    never undoes a scheduler's setting (such as Slurm's PrivateData).
    """

    name: str | None
    """Name of the viewer; None: the user who started the page, with that user's rights."""
    admin: bool = False

    @property
    def only(self) -> str | None:
        """Return the user whose jobs are shown; None: all jobs in the store."""
        return None if self.name is None or self.admin else self.name

    def may_see(self, record: DecisionRecord) -> bool:
        """Return whether the viewer may see this decision: an administrator every one, a user only
        own ones."""
        return self.only is None or record.user == self.only

    def may_use(self, workload: str) -> bool:
        """Return whether the viewer may use a workload: it is shared, or its name contains the
        viewer's name as its owner."""
        return self.only is None or may_use(self.only, workload)


def viewer_of(settings: UiSettings) -> Viewer:
    """Return the user named by the reverse proxy's header; without a configured header, the user
    who started the page."""
    if settings.user_header is None:
        return Viewer(None)
    name = request.headers.get(settings.user_header, "")
    if not name:
        abort(401, "The reverse proxy did not say who asks.")
    return Viewer(name, name in settings.admins)


def open_store(settings: UiSettings) -> Store | RemoteStore | None:
    """Open the store that the page reads; None: the demo site has none. Raises BerthError."""
    if settings.site_file is None and settings.store_url is None:
        return None
    installation = Installation(settings.site_file, settings.store_url)
    return installation.view(busy_timeout_s=PATIENCE_S)


def whole_store(store: Store | RemoteStore | None, viewer: Viewer) -> Store:
    """Return the local store. Raises BerthError for a viewer who may see only own jobs."""
    if store is None:
        raise BerthError("the demo site has no store", hint="start with: berth ui --site FILE")
    if viewer.only is not None or not isinstance(store, Store):
        raise BerthError("figures of the whole site are for its administrators")
    return store


@dataclass
class Context:
    """The page's site, forecaster and store; the site is read again when its file changes."""

    settings: UiSettings
    held: RecentUploads = field(default_factory=RecentUploads)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _site: tuple[object, Site, Forecaster] | None = None

    @property
    def is_demo(self) -> bool:
        """Return whether the page shows the demo site, which has no cluster."""
        return self.settings.site_file is None

    def site(self) -> Site:
        """Return the site of the current site file. Raises DocumentError."""
        return self._current()[0]

    def forecaster(self) -> Forecaster:
        """Return the forecaster with the site's bundles. Raises DocumentError."""
        return self._current()[1]

    def viewer(self) -> Viewer:
        """Return the viewer who sent the request."""
        return viewer_of(self.settings)

    def store(self) -> Store | RemoteStore | None:
        """Open the store; None: there is none. Raises BerthError.

        The store is opened once per request, even if opening fails, so that the parts of a page do
        not each wait for a lock.
        """
        if _STORE not in g:
            try:
                setattr(g, _STORE, open_store(self.settings))
            except BerthError as error:
                setattr(g, _STORE, error)
        opened: Store | RemoteStore | BerthError | None = g.get(_STORE)
        if isinstance(opened, BerthError):
            raise opened
        return opened

    def a_store(self) -> Store | RemoteStore:
        """Open the store as ``store`` does; also raises BerthError where there is none."""
        store = self.store()
        if store is None:
            raise BerthError("the demo site has no jobs", hint="start with: berth ui --site FILE")
        return store

    def whole_store(self) -> Store:
        """Return the local store, for a viewer who may see all of it. Raises BerthError."""
        return whole_store(self.store(), self.viewer())

    def workload_names(self) -> list[str]:
        """Return the names of workloads that the viewer may see. Raises BerthError."""
        store = self.store()
        if store is None:
            return []
        viewer = self.viewer()
        return sorted(
            workload.name for workload in store.workloads() if viewer.may_use(workload.name)
        )

    def workload(self, name: str) -> WorkloadRecord | None:
        """Return one workload that the viewer may see, or None. Raises BerthError."""
        store = self.store()
        if store is None or not self.viewer().may_use(name):
            return None
        return store.workload(name)

    def _current(self) -> tuple[Site, Forecaster]:
        path = self.settings.site_file
        with self._lock:
            version: object = None
            if path is not None and path.exists():
                status = path.stat()
                version = (status.st_mtime_ns, status.st_size)
            if self._site is None or self._site[0] != version:
                site = demo_site() if path is None else load_site(path)
                self._site = (version, site, forecaster_for(site))
            return self._site[1], self._site[2]


def context() -> Context:
    """Return the context of the running page."""
    page: Context = current_app.extensions[KEY]
    return page


def close_store(_error: BaseException | None) -> None:
    """Close the store that the request opened, at the request's end."""
    store = g.pop(_STORE, None)
    if isinstance(store, Store):
        store.close()
