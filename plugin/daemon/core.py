"""The daemon's parts that a submission depends on: socket server, look-up tables and recorder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from berth.plugin.daemon.following import STORE_PERIOD_S, follow_store
from berth.plugin.daemon.journal import AnswerJournal
from berth.plugin.daemon.listener import Listener
from berth.plugin.daemon.record import Identifiers
from berth.plugin.daemon.recorder import Recorder
from berth.plugin.daemon.server import SubmitServer
from berth.plugin.daemon.service import Service
from berth.plugin.daemon.spool import Spool
from berth.plugin.daemon.threads import Periodic
from berth.plugin.daemon.view import SiteView
from berth.plugin.host import HOST, Host
from berth.plugin.store.store import Store
from berth.plugin.usernames import UserNames

FLUSH_S = 10.0


class AnsweringCore:
    """Answers requests on ``listener`` and stores decisions in ``store``, or in the spool if that
    fails.
    """

    def __init__(
        self,
        site: SiteView,
        store: Store,
        spool: Path,
        listener: Listener,
        uids: Collection[int],
        *,
        background: Callable[[], Mapping[str, object]] = dict,
        tick: Callable[[], None] = lambda: None,
        names: UserNames | None = None,
        identifiers: Identifiers | None = None,
        host: Host = HOST,
    ) -> None:
        self.journal = AnswerJournal(
            spool.with_name(spool.name.replace(".spool.", ".journal.")), host=host
        )
        self.recorder = Recorder(
            store,
            Spool(spool, files=host.files),
            journal=self.journal,
            host=host,
        )
        self.service = Service(
            site,
            self.recorder.record,
            background=background,
            names=names,
            keep=self.journal.write,
            host=host,
            identifiers=identifiers,
        )
        self.store_thread = Periodic(
            "store watcher", STORE_PERIOD_S, follow_store(self.service, store), host=host
        )
        self.store_thread.once()
        self.server = SubmitServer(listener, self.service.handle, uids, tick=tick, host=host)

    def start(self) -> None:
        """Start storing decisions and following the store; answering starts with ``server.run``."""
        self.recorder.start()
        self.store_thread.start()

    def stop(self, flush_s: float = FLUSH_S) -> None:
        """Store the decisions that are still queued; call this after the server has ended.

        ``flush_s``: the longest time in seconds.
        """
        self.store_thread.stop()
        self.recorder.stop(flush_s)
        self.journal.close(remove=self.recorder.has_all)
