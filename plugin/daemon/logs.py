"""Logging to standard error, one structured line each, never waited for by the answering thread.

Records go through a bounded queue to a thread of their own: a reader of our standard error that
has stopped (a stuck journal) must not stop the answers.
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
    """Send the ``berth`` loggers to standard error, through a thread."""
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
