"""Stores decisions in the background, so that no reply waits for the store.

The answering thread appends to a bounded queue; this thread stores the queued decisions in
batches. While the store is locked, missing or damaged, batches go to the spool file beside the
store, to be stored later. If the spool fails too, they wait in the queue. A decision that finds
the queue full is counted as dropped. Replies continue in all cases.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from berth.pilot.errors import BerthError
from berth.plugin.daemon.journal import AnswerJournal
from berth.plugin.daemon.record import Answered, record_of
from berth.plugin.daemon.spool import Spool
from berth.plugin.daemon.threads import Worker
from berth.plugin.host import HOST, Host
from berth.plugin.store.records import DecisionRecord
from berth.plugin.store.store import Store

log = logging.getLogger("berth.serve.recorder")

QUEUE_LENGTH = 20_000
BATCH = 2_000
PERIOD_S = 0.2
RETRY_S = 2.0
FEW = 20
"""Fewer new decisions than this in one period are stored at once."""
GATHERED = 150
GATHERED_S = 1.0
"""Where decisions arrive faster, they are collected up to ``GATHERED`` or for ``GATHERED_S``
seconds and then stored together: SQLite checkpoints at the end of each batch, which takes longer
than writing some hundred decisions. Larger batches would hold the interpreter lock for longer,
and so delay answers.
"""


class Recorder(Worker):
    """Stores decisions in its own thread; other threads call only ``record``, ``summary`` and
    ``stop``.
    """

    def __init__(
        self,
        store: Store,
        spool: Spool,
        *,
        queue_length: int = QUEUE_LENGTH,
        retry_s: float = RETRY_S,
        journal: AnswerJournal | None = None,
        host: Host = HOST,
    ) -> None:
        super().__init__("recorder", host)
        self._ending = host.threads.event()
        self._clock = host.clock
        self._store = store
        self._spool = spool
        self._queue: deque[Answered] = deque()
        self._room = queue_length
        self._retry_s = retry_s
        self._host = host.name()
        self._journal = journal
        self._left_behind: list[Path] | None = None
        """Journal files that earlier daemons left; None: not looked for yet."""
        self._next_look_s = 0.0
        self._next_try_s = 0.0
        self._next_spool_s = 0.0
        self._worked_s = 0.0
        self._queued = 0
        """Length of the queue when it was last checked."""
        self._batch: list[DecisionRecord] = []
        """The first decisions of the queue, as records; they leave the queue once stored."""
        self._journalled: Path | None = None
        """The journal file that holds the queued decisions, and possibly stored ones."""
        self._to_remove: list[Path] = []
        self._holds_dropped = False
        """Whether ``_journalled`` also holds dropped decisions."""
        self._dropped_last = self._dropped_before = 0
        """``dropped`` at the last round, and when the current journal began."""
        self.stored = 0
        self.spooled = 0
        self.dropped = 0
        self.problem: str | None = None
        """Why the store rejects decisions at present; None: it accepts them."""

    def record(self, answered: Answered) -> None:
        """Queue one decision to be stored, or count it as dropped where the queue is full."""
        if len(self._queue) >= self._room:
            self.dropped += 1
            return
        self._queue.append(answered)

    def summary(self) -> Mapping[str, object]:
        """Return the recorder's counters for the ``stats`` reply."""
        return {
            "stored": self.stored,
            "spooled": self.spooled,
            "dropped": self.dropped,
            "queued": len(self._queue),
            "unjournalled": self._journal.failed if self._journal is not None else 0,
            "problem": self.problem,
        }

    def run(self) -> None:
        """Store queued decisions every ``PERIOD_S`` seconds until ``stop``, and once more
        after it.
        """
        while not self._ending.wait(PERIOD_S):
            if not self._gathers():
                self._work()
                self._worked_s, self._queued = self._clock.monotonic(), len(self._queue)
        self._next_try_s = self._next_spool_s = 0.0
        self._work()

    def stop(self, timeout_s: float) -> None:
        """Store the queued decisions and end; those not stored within ``timeout_s`` are lost and
        logged.
        """
        self._ending.set()
        self.join(timeout_s)
        if self._queue:
            log.error("stopped with %d decisions not written down", len(self._queue))

    @property
    def has_all(self) -> bool:
        """Return whether all decisions in the current journal are stored or spooled."""
        return not self._queue and self.dropped == self._dropped_before

    def _gathers(self) -> bool:
        """Return whether to wait for more decisions before storing, because decisions arrive
        quickly.
        """
        before, self._queued = self._queued, len(self._queue)
        return (
            self._queued - before >= FEW
            and self._queued < GATHERED
            and 0 <= self._clock.monotonic() - self._worked_s < GATHERED_S
        )

    def _work(self) -> None:
        try:
            now_s = self._clock.monotonic()
            if self._journal is not None:
                self._look_after(self._journal, now_s)
            if self._spool.waiting and now_s >= max(self._next_try_s, self._next_spool_s):
                self._bring_back()
            while self._queue and self._keep():
                for _ in self._batch:
                    self._queue.popleft()
                self._batch = []
            if self._journalled is not None and not self._queue:
                if not self._holds_dropped:  # otherwise the next daemon stores it
                    self._to_remove.append(self._journalled)
                self._journalled = None
            if self._journal is not None:
                self._to_remove = [p for p in self._to_remove if not self._journal.remove(p)]
        except Exception:
            log.exception("the recorder failed on a batch; it goes on")

    def _look_after(self, journal: AnswerJournal, now_s: float) -> None:
        if self._left_behind != [] and now_s >= self._next_look_s:
            self._bring_in(journal)
        if self._journalled is None:
            self._journalled = journal.rotate()
            if self._journalled is not None:
                self._holds_dropped = self.dropped > self._dropped_before
                # Use the count of one round earlier: a decision dropped just now may be in either
                # file.
                self._dropped_before = self._dropped_last
        self._dropped_last = self.dropped

    def _keep(self) -> bool:
        """Store or spool the first decisions of the queue; return False where both failed and they
        stay queued.
        """
        if not self._batch:
            count = min(BATCH, len(self._queue))
            self._batch = [self._written(self._queue[i]) for i in range(count)]
        records = self._batch
        if self._clock.monotonic() >= self._next_try_s:
            try:
                self._store.decisions.add(records)
            except BerthError as error:
                self._failed(error)
            else:
                self.stored += len(records)
                self._works_again()
                return True
        if self._clock.monotonic() < self._next_spool_s:
            return False
        try:
            self._spool.append(records)
        except OSError as error:
            if self._next_spool_s == 0:
                log.error("decisions cannot even be spooled (%s): they wait in memory", error)
            self._next_spool_s = self._clock.monotonic() + self._retry_s
            return False
        self._next_spool_s = 0.0
        self.spooled += len(records)
        return True

    def _bring_in(self, journal: AnswerJournal) -> None:
        """Store the decisions that a killed daemon had answered but not stored."""
        self._next_look_s = self._clock.monotonic() + self._retry_s
        if self._clock.monotonic() < self._next_try_s:
            return
        again: list[Path] = []
        try:
            paths = journal.left_behind() if self._left_behind is None else self._left_behind
        except OSError as error:
            log.warning("decisions of a daemon before this one are not found: %s", error)
            return
        for number, path in enumerate(paths):
            try:
                count = journal.bring_in(path, self._store.decisions.add)
            except BerthError as error:
                self._failed(error)
                again += paths[number:]
                break
            except FileNotFoundError:
                continue  # another daemon has stored it
            except OSError as error:
                log.warning("%s cannot be read yet: %s", path, error)
                again.append(path)
                continue
            self.stored += count
            if count:
                log.info("brought %d decisions of a daemon before this one in", count)
        self._left_behind = again

    def _bring_back(self) -> None:
        try:
            count = self._spool.drain(self._store.decisions.add)
        except BerthError as error:
            self._failed(error)
        except OSError as error:
            if self._next_spool_s == 0:
                log.warning("the spool cannot be read: %s", error)
            self._next_spool_s = self._clock.monotonic() + self._retry_s
        else:
            self.stored += count
            self._next_spool_s = 0.0
            self._works_again()
            log.info("brought %d spooled decisions into the store", count)

    def _failed(self, error: BerthError) -> None:
        self._next_try_s = self._clock.monotonic() + self._retry_s
        if self.problem is None:
            log.warning("%s; decisions go to %s", error.message, self._spool.path)
        self.problem = error.message

    def _works_again(self) -> None:
        if self.problem is not None:
            log.info("the store takes decisions again")
        self.problem = None

    def _written(self, answered: Answered) -> DecisionRecord:
        return record_of(answered, self._host)
