"""``berth serve --users`` put together: site file, store, socket, signals."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

from berth.plugin.daemon.listener import Listener
from berth.plugin.daemon.notify import Notifier
from berth.plugin.site.load import SiteWatcher
from berth.plugin.store import Store
from berth.plugin.users.peers import Peer, name_of
from berth.plugin.users.server import UserServer
from berth.plugin.users.service import UserService
from berth.plugin.users.workloads import UserWorkloads

log = logging.getLogger("berth.users")

_NICE = 10
"""Users' requests never take processor time from the scheduler's."""


def serve_users(site_file: Path) -> int:
    """Serve until SIGTERM; the exit status. Raises BerthError where it cannot start."""
    watcher = SiteWatcher(site_file)
    site = watcher.site
    service = UserService(UserWorkloads(Store.open(site.daemon.store), watcher))

    def peer_of(uid: int) -> Peer:
        name = name_of(uid)
        return Peer(uid, name, uid in (0, os.geteuid()) or name in watcher.site.daemon.admins)

    os.nice(_NICE)
    listener = Listener(site.daemon.user_socket, mode=0o666, folder_mode=0o755)
    server = UserServer(listener, service.answer, peer_of)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    log.info("users are served on %s", site.daemon.user_socket)
    Notifier().tell("READY=1")
    return 0 if server.run() else 1
