"""Writes decisions down without ever being waited for.

The answering thread appends to a bounded queue; this thread stores what is there in batches.
While the store is locked, gone or damaged, the batches go to the spool beside it and come back
later; where even that fails they wait in the queue. What finds the queue full is counted as
dropped. Replies go on in every case.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from berth.pilot.errors import BerthError
from berth.plugin.daemon.answered import Answered
from berth.plugin.daemon.journal import Journal, bring_in
from berth.plugin.daemon.spool import Spool
from berth.plugin.daemon.written import Writer
from berth.plugin.store.records import DecisionRecord
from berth.plugin.store.store import Store

log = logging.getLogger("berth.serve.recorder")

QUEUE_LENGTH = 20_000
BATCH = 1_000
PERIOD_S = 0.2
RETRY_S = 2.0


class Recorder(threading.Thread):
    """``record`` is for the answering thread; the rest is this thread's own."""

    def __init__(
        self,
        store: Store,
        spool: Spool,
        *,
        queue_length: int = QUEUE_LENGTH,
        retry_s: float = RETRY_S,
        log_decisions: bool = False,
        journal: Journal | None = None,
    ) -> None:
        super().__init__(name="recorder", daemon=True)
        self._store = store
        self._spool = spool
        self._queue: deque[Answered] = deque()
        self._room = queue_length
        self._retry_s = retry_s
        self._log_decisions = log_decisions
        self._ending = threading.Event()
        self._writer = Writer(socket.gethostname())
        self._journal = journal
        self._left_behind = journal.left_behind() if journal is not None else []
        self._next_try_s = 0.0
        self._next_spool_s = 0.0
        self._batch: list[DecisionRecord] = []
        """The first ones of the queue, made ready to be stored; they leave it once they are."""
        self._journalled: Path | None = None
        """Holds what is in the queue, and maybe more that is stored already."""
        self.stored = 0
        self.spooled = 0
        self.dropped = 0
        self.problem: str | None = None
        """Why the store does not take decisions at present; None: it does."""

    def record(self, answered: Answered) -> None:
        """Take one decision to write down, or count it as dropped where the queue is full."""
        if len(self._queue) >= self._room:
            self.dropped += 1
            return
        self._queue.append(answered)

    def summary(self) -> Mapping[str, object]:
        """For ``stats``."""
        return {
            "stored": self.stored,
            "spooled": self.spooled,
            "dropped": self.dropped,
            "queued": len(self._queue),
            "problem": self.problem,
        }

    def run(self) -> None:
        while not self._ending.wait(PERIOD_S):
            self._work()
        self._next_try_s = self._next_spool_s = 0.0
        self._work()

    def stop(self, timeout_s: float) -> None:
        """Write down what is queued and end; what cannot be written in time is lost and said."""
        self._ending.set()
        self.join(timeout_s)
        if self._queue:
            log.error("stopped with %d decisions not written down", len(self._queue))

    def _work(self) -> None:
        try:
            if self._left_behind and time.monotonic() >= self._next_try_s:
                self._bring_in()
            dropped = self.dropped
            if self._journal is not None and self._journalled is None:
                self._journalled = self._journal.rotate()
            if self._spool.waiting and time.monotonic() >= max(
                self._next_try_s, self._next_spool_s
            ):
                self._bring_back()
            while self._queue and self._keep():
                for _ in self._batch:
                    self._queue.popleft()
                self._batch = []
            if self._journalled is not None and not self._queue:
                if self.dropped == dropped:  # else the next daemon brings in what was dropped
                    self._journalled.unlink(missing_ok=True)
                self._journalled = None
        except Exception:
            log.exception("the recorder failed on a batch; it goes on")

    def _keep(self) -> bool:
        """Store or spool the first ones of the queue; False: they must wait there."""
        if not self._batch:
            count = min(BATCH, len(self._queue))
            self._batch = [self._written(self._queue[i]) for i in range(count)]
        records = self._batch
        if time.monotonic() >= self._next_try_s:
            try:
                self._store.decisions.add(records)
            except BerthError as error:
                self._failed(error)
            else:
                self.stored += len(records)
                self._works_again()
                return True
        if time.monotonic() < self._next_spool_s:
            return False
        try:
            self._spool.append(records)
        except OSError as error:
            if self._next_spool_s == 0:
                log.error("decisions cannot even be spooled (%s): they wait in memory", error)
            self._next_spool_s = time.monotonic() + self._retry_s
            return False
        self._next_spool_s = 0.0
        self.spooled += len(records)
        return True

    def _bring_in(self) -> None:
        """What a killed daemon had answered and not yet written down."""
        while self._left_behind:
            path = self._left_behind[-1]
            try:
                count = bring_in(path, self._store.decisions.add)
            except BerthError as error:
                self._failed(error)
                return
            except OSError as error:
                log.warning("%s cannot be read: %s", path, error)
                count = 0
            self._left_behind.pop()
            self.stored += count
            if count:
                log.info("brought %d decisions of a daemon before this one in", count)

    def _bring_back(self) -> None:
        try:
            count = self._spool.drain(self._store.decisions.add)
        except BerthError as error:
            self._failed(error)
        except OSError as error:
            if self._next_spool_s == 0:
                log.warning("the spool cannot be read: %s", error)
            self._next_spool_s = time.monotonic() + self._retry_s
        else:
            self.stored += count
            self._next_spool_s = 0.0
            self._works_again()
            log.info("brought %d spooled decisions into the store", count)

    def _failed(self, error: BerthError) -> None:
        self._next_try_s = time.monotonic() + self._retry_s
        if self.problem is None:
            log.warning("%s; decisions go to %s", error.message, self._spool.path)
        self.problem = error.message

    def _works_again(self) -> None:
        if self.problem is not None:
            log.info("the store takes decisions again")
        self.problem = None

    def _written(self, answered: Answered) -> DecisionRecord:
        record = self._writer.record(answered)
        if self._log_decisions:
            log.info(
                "decision=%s action=%s code=%s mode=%s user=%s profile=%s chosen=%s latency_us=%d",
                record.id,
                record.action,
                record.code,
                record.mode,
                record.user,
                record.profile or "-",
                record.chosen or "-",
                record.latency_us,
            )
        return record
