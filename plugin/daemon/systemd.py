"""Reports to the supervisor of a process: log lines on standard error, and its readiness.

Log records go through a bounded queue to a thread of their own, so that a stalled reader of
standard error (a stuck journal) does not stop the answers.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import socket
import sys
from contextlib import suppress
from logging.handlers import QueueHandler, QueueListener

_QUEUE_LENGTH = 10_000


class _Dropping(QueueHandler):
    def enqueue(self, record: logging.LogRecord) -> None:
        with suppress(queue.Full):
            self.queue.put_nowait(record)


def to_stderr(level: int = logging.INFO) -> None:
    """Write records of the ``berth`` loggers to standard error, from a separate thread."""
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(logging.Formatter("level=%(levelname)s logger=%(name)s %(message)s"))
    waiting: queue.Queue[logging.LogRecord] = queue.Queue(_QUEUE_LENGTH)
    listener = QueueListener(waiting, stream)
    logger = logging.getLogger("berth")
    logger.handlers[:] = [_Dropping(waiting)]
    logger.setLevel(level)
    logger.propagate = False
    listener.start()
    atexit.register(listener.stop)


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
