"""Bugs put into the product on purpose: the simulation must find each of them.

A plant is taken back when its ``with`` is over.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from berth.pilot.errors import BerthError
from berth.plugin.daemon import service
from berth.plugin.daemon.journal import AnswerJournal
from berth.plugin.daemon.record import Identifiers
from berth.plugin.daemon.recorder import Recorder
from berth.plugin.daemon.server import SubmitServer
from berth.plugin.daemon.spool import Spool
from berth.plugin.store.decisions import Decisions
from berth.plugin.store.store import Store
from simulator.slurm import Slurmctld

Plant = tuple[Any, str, Any]


def _source(owner: Any, *changes: tuple[str, str]) -> list[Plant]:
    """A filter with other texts in some places."""
    text = owner.source
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after)
    return [(owner, "source", text)]


def _journal_forgets(*_: Any) -> None:
    """Nothing is written before the answer goes out."""


def _torn_lines(self: Any, *entry: Any) -> None:
    self._torn = False  # a line that was cut off takes the next one with it
    _WRITE(self, *entry)


_WRITE = AnswerJournal.write


def _same_name(self: Any) -> tuple[Path | None, int]:
    """The file of the daemon before, which had the same pid, is gone on with."""
    self._number += 1
    path = self._prefix.with_name(f"{self._prefix.name}.{self._host.pid()}-{self._number}")
    try:
        handle = self._files.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._files.lock(handle)
    except OSError:
        return None, -1
    return path, handle


def _stored_or_not(self: Any) -> bool:
    """Decisions leave the queue whatever the store says."""
    self._batch = [self._written(one) for one in list(self._queue)[:1000]]
    with suppress(BerthError):
        self._store.decisions.add(self._batch)
    return True


def _short_spool(self: Any, records: Any) -> None:
    """Nobody looks how much was written."""
    handle = self._files.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    text = "".join(json.dumps(dataclasses.asdict(r)) + "\n" for r in records)
    self._files.write(handle, text.encode())
    self._files.close(handle)


_ANSWER_NEXT = SubmitServer._answer_next


def _anybodys(self: Any, connection: Any) -> None:
    """The answer goes to whoever was served last."""
    last = getattr(self, "last", connection)
    self.last = connection
    _ANSWER_NEXT(self, connection)
    if last is not connection and last.socket.fileno() in self._connections and not last.out:
        last.socket.end.put(b'{"v":1,"action":"keep"}\n')


_NEXT = Identifiers.next


def _same_name(self: Any) -> str:
    self.first = getattr(self, "first", None) or _NEXT(self)
    return self.first  # type: ignore[no-any-return]


def _prunes_all(self: Any, before_s: float) -> int:
    with self._database.write() as connection:
        return int(connection.exec_driver_sql("DELETE FROM decisions").rowcount)


def _old_forecasts(self: Any, revision: int) -> Any:
    return _CHANGES(self, revision + 2 if revision else 0)  # some are never read


_CHANGES = Store.changes_since


PLANTS: dict[str, Callable[[], list[Plant]]] = {
    "answers go out before they are in the journal": lambda: [
        (AnswerJournal, "write", _journal_forgets)
    ],
    "a torn line of the journal swallows the next": lambda: [(AnswerJournal, "write", _torn_lines)],
    "the journal of a daemon with the same pid is gone on with": lambda: [
        (AnswerJournal, "_opened", _same_name)
    ],
    "a decision leaves the queue though the store failed": lambda: [
        (Recorder, "_keep", _stored_or_not)
    ],
    "the spool does not look how much was written": lambda: [(Spool, "append", _short_spool)],
    "an answer goes to another connection as well": lambda: [
        (SubmitServer, "_answer_next", _anybodys)
    ],
    "every decision has the same name": lambda: [(Identifiers, "next", _same_name)],
    "pruning takes what is young": lambda: [(Decisions, "prune", _prunes_all)],
    "a revision of the store is skipped": lambda: [(Store, "changes_since", _old_forecasts)],
    "Lua: an edit without a stamp is carried out": lambda: _source(
        Slurmctld,
        ("if not problem and not text_of(reply.stamp, MAX_STAMP_BYTES) then", "if false then"),
        ("text = one_line(text, MAX_STAMP_BYTES)", 'text = one_line(text or "", MAX_STAMP_BYTES)'),
    ),
    "Lua: what was done is not undone when the rest fails": lambda: _source(
        Slurmctld, ("      for index = #done, 1, -1 do\n", "      for index = 0, 1, -1 do\n")
    ),
    "Lua: the exchange may take a second": lambda: _source(
        Slurmctld, ("local limit = config.deadline_ms / 1000", "local limit = 1")
    ),
    "nobody looks for the kill switch": lambda: [
        *_source(Slurmctld, ("if switched_off()", "if false")),
        (service, "killed", lambda *_: False),
    ],
}  # fmt: skip


FOCUS: dict[str, dict[str, str]] = {
    "the spool does not look how much was written": {
        "spool.write": "short", "store.begin": "gone",
    },
    "a torn line of the journal swallows the next": {"journal.write": "short"},
    "Lua: an edit without a stamp is carried out": {"slurm.receive": "garbage"},
}  # fmt: skip
"""Faults that bring a bug to light soon."""


@contextmanager
def planted(name: str) -> Iterator[None]:
    """With this bug in the product."""
    undo = []
    for owner, attribute, value in PLANTS[name]():
        undo.append((owner, attribute, owner.__dict__[attribute]))
        setattr(owner, attribute, value)
    try:
        yield
    finally:
        for owner, attribute, value in reversed(undo):
            setattr(owner, attribute, value)
