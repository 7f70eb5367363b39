"""Stored decisions: the daemon's answers with their reasons."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, case, exists, func, or_, select, tuple_

from berth.pilot.bounded import BoundedCache
from berth.pilot.progress import steps
from berth.plugin.store import tables
from berth.plugin.store.database import Database
from berth.plugin.store.pruning import delete_before
from berth.plugin.store.records import DecisionArm, DecisionInputs, DecisionRecord
from berth.plugin.store.statements import count_of, in_pieces

T = TypeVar("T")

_RANKED = func.coalesce(tables.rankings.c.ranked, tables.decisions.c.ranked).label("ranked")
_FROM = tables.decisions.outerjoin(
    tables.rankings, tables.rankings.c.digest == tables.decisions.c.ranking
)
_OWN = tuple(name for name in DecisionRecord.__slots__ if name != "ranked")
"""The columns of a decision that are stored in its own row."""
_RECORD = (*(tables.decisions.c[name] for name in _OWN), _RANKED)
_own = attrgetter(*_OWN)

_SHARED_FROM = 256
"""Rankings shorter than this many characters are stored with each decision."""
_REMEMBERED = 512
"""The number of recent rankings that are recognised when they occur again."""
_DAY_S = 86_400.0
_USED_LATER = (
    "(digest) DO UPDATE SET used_s = excluded.used_s "
    "WHERE rankings.used_s < excluded.used_s - 86400"
)
"""Updates ``used_s`` of a shared ranking at most once a day."""
_TOGETHER = 10
"""Rows per INSERT statement. More rows are not faster; fewer rows make the recorder's thread
compete more often with the answering thread for the interpreter.
"""


class Decisions:
    """Reads and writes the store's table of decisions."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Statements are built once and passed to the driver as text: that takes a third of the
        # time of a SQLAlchemy Core insert. The recorder shares the interpreter with the answering
        # thread, so its time matters.
        hole = "?" if database.path is not None else "%s"
        names = (*_OWN, "ranked", "ranking")
        self._inserts = {
            count: _insert("decisions", names, hole, count, "(id) DO NOTHING")
            for count in (1, _TOGETHER)
        }
        self._share = _insert("rankings", ("digest", "ranked", "used_s"), hole, 1, _USED_LATER)
        self._met: BoundedCache[str, str] = BoundedCache(_REMEMBERED)
        """Digests by their text, which is found by its identity where the recorder has it again."""

    def add(self, records: Sequence[DecisionRecord]) -> None:
        """Store records in one transaction; a decision that is stored already is left unchanged.

        A long ranking that occurs repeatedly is stored once, in the table ``rankings``.
        """
        if not records:
            return
        shared: dict[str, tuple[str, float]] = {}
        rows = [(*_own(r), *self._ranked(r, shared)) for r in records]
        with self._database.write() as connection:
            if shared:  # in a fixed order, so that two daemons do not wait for each other
                texts = [(digest, *shared[digest]) for digest in sorted(shared)]
                connection.exec_driver_sql(self._share, texts)
            whole = len(rows) // _TOGETHER * _TOGETHER
            self._insert(connection, _TOGETHER, rows[:whole])
            self._insert(connection, 1, rows[whole:])

    def _ranked(
        self, record: DecisionRecord, shared: dict[str, tuple[str, float]]
    ) -> tuple[str, str | None]:
        """Return the values of the columns ``ranked`` and ``ranking``.

        A ranking that goes into the table ``rankings`` is added to ``shared``: (text, time) by
        digest.
        """
        text = record.ranked
        if len(text) < _SHARED_FROM:
            return text, None
        digest = self._met.get(text)
        if digest is None:
            self._met.put(text, _digest(text))
            return text, None
        used_s = shared[digest][1] if digest in shared else record.time_s
        shared[digest] = text, max(used_s, record.time_s)
        return "[]", digest

    def put_unmoved(self, records: Collection[DecisionRecord]) -> None:
        """Store the action, code and reason of decisions that the filter did not carry out."""
        if not records:
            return
        table = tables.decisions
        with self._database.write() as connection:
            for r in records:
                values = {"action": r.action, "code": r.code, "reason": r.reason}
                connection.execute(table.update().where(table.c.id == r.id).values(values))

    def _insert(
        self, connection: Connection, together: int, rows: Sequence[tuple[object, ...]]
    ) -> None:
        if rows:
            pieces = (rows[i : i + together] for i in range(0, len(rows), together))
            values = [tuple(chain.from_iterable(piece)) for piece in pieces]
            connection.exec_driver_sql(self._inserts[together], values)

    def get(self, decision: str) -> DecisionRecord | None:
        """Return one decision by its id; None: not stored."""
        table = tables.decisions
        rows = self._database.rows(_records().where(table.c.id == decision))
        return DecisionRecord(*rows[0]) if rows else None

    def of_ids(self, ids: Collection[str]) -> dict[str, DecisionRecord]:
        """Return the stored decisions among these ids, by id."""
        return self._by_id(_records(), in_pieces(ids), lambda row: DecisionRecord(*row))

    def requests(self, ids: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return account and request (JSON) of the stored decisions among these ids, by id."""
        table = tables.decisions
        query = select(table.c.id, table.c.account, table.c.request)
        return self._by_id(query, in_pieces(ids), lambda row: (row.account or "", row.request))

    def inputs(self, ids: Collection[str]) -> dict[str, DecisionInputs]:
        """Return time, request and ranking of the stored decisions among these ids, by id."""
        table = tables.decisions
        query = select(table.c.id, table.c.time_s, table.c.request, _RANKED).select_from(_FROM)
        return self._by_id(query, in_pieces(ids), lambda row: DecisionInputs._make(row[1:]))

    def arms(self, ids: Collection[str]) -> dict[str, DecisionArm]:
        """Return what the decisions among these ids say of their arm, by id."""
        table = tables.decisions
        query = select(table.c.id, *(table.c[name] for name in DecisionArm._fields))
        pieces = steps("pieces of decisions read", list(in_pieces(ids)))
        return self._by_id(query, pieces, lambda row: DecisionArm._make(row[1:]))

    def _by_id(
        self, query: Select[Any], pieces: Iterable[list[str]], parse: Callable[[Any], T]
    ) -> dict[str, T]:
        """Return ``parse(row)`` for the rows of ``query`` with these ids, by id."""
        column = tables.decisions.c.id
        with self._database.read() as connection:
            return {
                row.id: parse(row)
                for piece in pieces
                for row in connection.execute(query.where(column.in_(piece)))
            }

    def first_s(self) -> float | None:
        """Return the Unix time of the oldest decision; None: no decision is stored."""
        oldest_s = self._database.value(select(func.min(tables.decisions.c.time_s)))
        return None if oldest_s is None else float(oldest_s)

    def last(
        self,
        count: int,
        *,
        user: str | None = None,
        code: str | None = None,
        workload: str | None = None,
        action: str | None = None,
        partition: str | None = None,
        since_s: float | None = None,
        until_s: float | None = None,
        before: DecisionRecord | None = None,
    ) -> list[DecisionRecord]:
        """Return the newest ``count`` decisions of a user, code, workload, action or partition
        (asked for, or run in) between two Unix times, newest first.

        ``before``: only decisions older than this one, for the next page.
        """
        table = tables.decisions
        query = _records().order_by(table.c.time_s.desc(), table.c.id.desc()).limit(count)
        for column, value in (
            (table.c.user, user),
            (table.c.code, code),
            (table.c.workload, workload),
            (table.c.action, action),
        ):
            if value is not None:
                query = query.where(column == value)
        if partition is not None:
            runs = tables.runs.c
            ran = exists().where(runs.decision == table.c.id, runs.partition == partition)
            query = query.where(or_(table.c.queue == partition, ran))
        if since_s is not None:
            query = query.where(table.c.time_s >= since_s)
        if until_s is not None:
            query = query.where(table.c.time_s < until_s)
        if before is not None:
            position = tuple_(table.c.time_s, table.c.id)
            query = query.where(position < tuple_(before.time_s, before.id))
        return [DecisionRecord(*row) for row in self._database.rows(query)]

    def of_user(self, user: str, since_s: float, until_s: float) -> list[DecisionRecord]:
        """Return the decisions for a user's jobs between two Unix times, both included, oldest
        first.
        """
        table = tables.decisions
        query = (
            _records()
            .where(table.c.user == user, table.c.time_s.between(since_s, until_s))
            .order_by(table.c.time_s)
        )
        return [DecisionRecord(*row) for row in self._database.rows(query)]

    def counted(self, since_s: float, most: int) -> list[tuple[str, str, str, int]]:
        """Return the number of decisions by mode, action and code, most frequent first.

        Counts the last ``most`` decisions since Unix time ``since_s``.
        """
        counts = self._counts(("mode", "action", "code"), since_s, most)
        groups = [(mode, action, code, number) for (mode, action, code), number in counts.items()]
        return sorted(groups, key=lambda group: (-group[3], group[:3]))

    def answered(self, since_s: float, most: int) -> dict[tuple[str, str, str], int]:
        """Return the number of decisions by action, code and ground (empty: none).

        Counts the last ``most`` decisions since Unix time ``since_s``.
        """
        return self._counts(("action", "code", "ground"), since_s, most)

    def in_shadow(self, since_s: float, most: int) -> dict[str, int]:
        """Return the number of jobs in mode shadow by the place that they would have been sent to
        first; empty: they would have stayed as written.

        Counts the last ``most`` decisions since Unix time ``since_s``.
        """
        table = tables.decisions
        place = case((table.c.edits == "{}", ""), else_=table.c.chosen).label("place")
        newest = (
            select(place)
            .where(table.c.time_s >= since_s, table.c.mode == "shadow")
            .order_by(table.c.time_s.desc())
            .limit(most)
            .subquery()
        )
        query = select(newest.c.place, func.count()).group_by(newest.c.place)
        return {str(place or ""): int(number) for place, number in self._database.rows(query)}

    def _counts(
        self, names: tuple[str, str, str], since_s: float, most: int
    ) -> dict[tuple[str, str, str], int]:
        table = tables.decisions
        newest = (
            select(*(table.c[name] for name in names))
            .where(table.c.time_s >= since_s)
            .order_by(table.c.time_s.desc())
            .limit(most)
            .subquery()
        )
        groups = tuple(newest.c[name] for name in names)
        query = select(*groups, func.count()).group_by(*groups)
        return {
            (str(a or ""), str(b or ""), str(c or "")): int(number)
            for a, b, c, number in self._database.rows(query)
        }

    def changed(self, ids: Collection[str]) -> set[str]:
        """Return those of these decisions that changed their jobs."""
        table = tables.decisions
        query = select(table.c.id).where(table.c.action == "edit")
        return set(self._by_id(query, in_pieces(ids), lambda row: row.id))

    def count(self) -> int:
        """Return the number of stored decisions."""
        return int(self._database.value(select(func.count()).select_from(tables.decisions)))

    def count_since(self, since_s: float, most: int) -> int:
        """Return the number of decisions since a Unix time, counting at most ``most``."""
        with self._database.read() as connection:
            return count_of(connection, most, tables.decisions.c.time_s >= since_s)

    def prune(self, before_s: float) -> int:
        """Delete decisions older than Unix time ``before_s``; return their number."""
        count = delete_before(self._database, tables.decisions.c.time_s, before_s)
        delete_before(self._database, tables.rankings.c.used_s, before_s - _DAY_S)
        return count


def _records() -> Select[Any]:
    return select(*_RECORD).select_from(_FROM)


def _insert(table: str, names: Sequence[str], hole: str, count: int, conflict: str) -> str:
    """Return an INSERT statement for ``count`` rows."""
    columns = ", ".join(f'"{name}"' for name in names)
    row = f"({', '.join([hole] * len(names))})"
    rows = ", ".join([row] * count)
    words = ("INSERT INTO", table, f"({columns})", "VALUES", rows, "ON CONFLICT", conflict)
    return " ".join(words)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
