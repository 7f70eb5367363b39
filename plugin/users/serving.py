"""``berth serve --users`` put together: site file, store, socket, signals."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.plugin.daemon.listener import Listener
from berth.plugin.daemon.notify import Notifier
from berth.plugin.site.load import load_site
from berth.plugin.users.peers import Peer, name_of
from berth.plugin.users.server import UserServer

log = logging.getLogger("berth.users")

_NICE = 10
"""Users' requests never take processor time from the scheduler's."""


def serve_users(site_file: Path) -> int:
    """Serve until SIGTERM; the exit status. Raises BerthError where it cannot start."""
    site = load_site(site_file)
    admins = frozenset(site.daemon.admins)

    def peer_of(uid: int) -> Peer:
        name = name_of(uid)
        return Peer(uid, name, uid in (0, os.geteuid()) or name in admins)

    os.nice(_NICE)
    listener = Listener(site.daemon.user_socket, mode=0o666, folder_mode=0o755)
    server = UserServer(listener, answer, peer_of)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    log.info("users are served on %s", site.daemon.user_socket)
    Notifier().tell("READY=1")
    return 0 if server.run() else 1


def answer(peer: Peer, _request: Mapping[str, Any]) -> Mapping[str, object]:
    """Who the caller is."""
    return {"user": peer.name, "uid": peer.uid, "admin": peer.admin}
