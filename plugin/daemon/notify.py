"""systemd's readiness protocol: sends datagrams, or nothing where systemd does not
supervise Berth.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress


class Notifier:
    """Sends ``READY=1``, ``WATCHDOG=1`` and ``STOPPING=1`` to the service manager; never blocks."""

    def __init__(self) -> None:
        address = os.environ.get("NOTIFY_SOCKET")
        self._address = "\0" + address[1:] if address and address[0] == "@" else address
        self._socket = (
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            if address
            else None
        )

    def tell(self, message: str) -> None:
        """Send one message to the service manager; do nothing where there is none."""
        if self._socket is not None and self._address is not None:
            with suppress(OSError):
                self._socket.sendto(message.encode(), self._address)
