"""Logs to standard error, one structured line per record, without blocking the answering thread.

Log records go through a bounded queue to a thread of their own, so that a stalled reader of
standard error (a stuck journal) does not stop the answers.
"""

from __future__ import annotations

import atexit
import logging
import queue
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
