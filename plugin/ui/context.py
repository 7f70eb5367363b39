"""What the views share: the site, the forecaster, the store, who asks."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from flask import current_app, g

from berth.pilot.errors import BerthError
from berth.plugin.forecasting import forecaster_for
from berth.plugin.site import Site, demo_site, load_site
from berth.plugin.store import Store
from berth.plugin.store.records import WorkloadRecord
from berth.plugin.ui.held import Held
from berth.plugin.ui.settings import UiSettings
from berth.plugin.ui.viewer import Viewer, open_store, viewer_of, whole_store
from berth.plugin.users.client import RemoteStore
from berth.predictor.core.forecaster import Forecaster

KEY = "berth"
_STORE = "berth_store"


@dataclass
class Context:
    """Made once; the site is read again when its file changes."""

    settings: UiSettings
    held: Held = field(default_factory=Held)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _site: tuple[object, Site, Forecaster] | None = None

    @property
    def is_demo(self) -> bool:
        """Whether there is no cluster behind it."""
        return self.settings.site_file is None

    def site(self) -> Site:
        """The site as its file is now. Raises DocumentError."""
        return self._current()[0]

    def forecaster(self) -> Forecaster:
        """With the site's bundles. Raises DocumentError."""
        return self._current()[1]

    def viewer(self) -> Viewer:
        """Who asks."""
        return viewer_of(self.settings)

    def store(self) -> Store | RemoteStore | None:
        """What may be read; None: there is none. Raises BerthError.

        Opened once a request, also where that fails: its parts do not wait for a lock in turn.
        """
        if _STORE not in g:
            try:
                setattr(g, _STORE, open_store(self.settings))
            except BerthError as error:
                setattr(g, _STORE, error)
        found: Store | RemoteStore | BerthError | None = g.get(_STORE)
        if isinstance(found, BerthError):
            raise found
        return found

    def a_store(self) -> Store | RemoteStore:
        """The same; raises BerthError where there is none, too."""
        store = self.store()
        if store is None:
            raise BerthError("the demo site has no jobs", hint="start with: berth ui --site FILE")
        return store

    def whole_store(self) -> Store:
        """The store itself, for who may see all of it. Raises BerthError."""
        return whole_store(self.store(), self.viewer())

    def workload_names(self) -> list[str]:
        """Those that the viewer may see. Raises BerthError."""
        store = self.store()
        if store is None:
            return []
        viewer = self.viewer()
        return sorted(one.name for one in store.workloads() if viewer.may_use(one.name))

    def workload(self, name: str) -> WorkloadRecord | None:
        """One of those, or None. Raises BerthError."""
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
    """Of the running page."""
    found: Context = current_app.extensions[KEY]
    return found


def close_store(_error: BaseException | None) -> None:
    """At the end of a request."""
    store = g.pop(_STORE, None)
    if isinstance(store, Store):
        store.close()
