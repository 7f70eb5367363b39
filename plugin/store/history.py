"""Decisions: what was answered, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter

from sqlalchemy import delete, func, select, tuple_

from berth.plugin.store import tables
from berth.plugin.store.database import Database
from berth.plugin.store.records import DecisionRecord
from berth.policies.codes import Code

_COLUMNS = tuple(column.name for column in tables.decisions.columns)
_columns = attrgetter(*_COLUMNS)

_PIECE = 500
"""Databases limit the values of one statement."""


def in_pieces(values: Collection[str]) -> Iterator[list[str]]:
    """``values`` in lists that one statement takes."""
    listed = list(values)
    for begin in range(0, len(listed), _PIECE):
        yield listed[begin : begin + _PIECE]


class Decisions:
    """The record of every answer, newest last in time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Compiled once and given to the driver as it is: a third of the time of a Core insert,
        # and the daemon's recorder shares its interpreter with the answers.
        holes = ", ".join("?" if database.path is not None else "%s" for _ in _COLUMNS)
        names = ", ".join(f'"{name}"' for name in _COLUMNS)
        words = ("INSERT INTO decisions", f"({names})", "VALUES", f"({holes})", "ON CONFLICT (id)")
        self._insert = " ".join((*words, "DO NOTHING"))

    def add(self, records: Sequence[DecisionRecord]) -> None:
        """Store a batch in one transaction; a record that is there already is left alone."""
        if not records:
            return
        with self._database.write() as connection:
            connection.exec_driver_sql(self._insert, [_columns(r) for r in records])

    def get(self, decision: str) -> DecisionRecord | None:
        """One decision by its id, or None."""
        table = tables.decisions
        with self._database.read() as connection:
            row = connection.execute(select(table).where(table.c.id == decision)).one_or_none()
        return None if row is None else DecisionRecord(**row._mapping)

    def of_ids(self, ids: Collection[str]) -> dict[str, DecisionRecord]:
        """Those of these decisions that are there, by id."""
        table = tables.decisions
        found = {}
        with self._database.read() as connection:
            for some in in_pieces(ids):
                for row in connection.execute(select(table).where(table.c.id.in_(some))):
                    found[row.id] = DecisionRecord(**row._mapping)
        return found

    def requests(self, ids: Collection[str]) -> dict[str, tuple[str, str]]:
        """Account and request (JSON) of those of these decisions that are there, by id."""
        table = tables.decisions
        query = select(table.c.id, table.c.account, table.c.request)
        found = {}
        with self._database.read() as connection:
            for some in in_pieces(ids):
                for row in connection.execute(query.where(table.c.id.in_(some))):
                    found[row.id] = (row.account or "", row.request)
        return found

    def first_s(self) -> float | None:
        """Unix time of the oldest one; None: there is none."""
        with self._database.read() as connection:
            found = connection.execute(select(func.min(tables.decisions.c.time_s))).scalar()
        return None if found is None else float(found)

    def last(
        self,
        count: int,
        *,
        user: str | None = None,
        code: str | None = None,
        profile: str | None = None,
        before: DecisionRecord | None = None,
    ) -> list[DecisionRecord]:
        """The newest ``count`` decisions, newest first, of a user, code or profile.

        ``before``: only those older than this one, for the next page.
        """
        table = tables.decisions
        query = select(table).order_by(table.c.time_s.desc(), table.c.id.desc()).limit(count)
        for column, value in (
            (table.c.user, user),
            (table.c.code, code),
            (table.c.profile, profile),
        ):
            if value is not None:
                query = query.where(column == value)
        if before is not None:
            here = tuple_(table.c.time_s, table.c.id)
            query = query.where(here < tuple_(before.time_s, before.id))
        with self._database.read() as connection:
            return [DecisionRecord(**row._mapping) for row in connection.execute(query)]

    def of_user(self, user: str, since_s: float, until_s: float) -> list[DecisionRecord]:
        """What was decided for a user's jobs in a time, both ends among it, oldest first."""
        table = tables.decisions
        query = (
            select(table)
            .where(table.c.user == user, table.c.time_s.between(since_s, until_s))
            .order_by(table.c.time_s)
        )
        with self._database.read() as connection:
            return [DecisionRecord(**row._mapping) for row in connection.execute(query)]

    def counted(self, since_s: float) -> list[tuple[str, str, str, int]]:
        """How many there were since then, by mode, action and code; the most first."""
        table = tables.decisions
        groups = (table.c.mode, table.c.action, table.c.code)
        query = select(*groups, func.count()).where(table.c.time_s >= since_s).group_by(*groups)
        with self._database.read() as connection:
            found = [(str(m), str(a), str(c), int(n)) for m, a, c, n in connection.execute(query)]
        return sorted(found, key=lambda one: (-one[3], one[:3]))

    def enforced(
        self, since_s: float, until_s: float
    ) -> tuple[dict[str, int], list[DecisionRecord]]:
        """Of those in mode enforce of a time, ``until_s`` not among it: how many jobs each workload
        had, and the decisions that sent one somewhere to learn."""
        table = tables.decisions
        of_then = (table.c.time_s >= since_s, table.c.time_s < until_s, table.c.mode == "enforce")
        counts = (
            select(table.c.profile, table.c.code, func.count())
            .where(*of_then, table.c.profile.is_not(None), table.c.chosen.is_not(None))
            .group_by(table.c.profile, table.c.code)
        )
        jobs: dict[str, int] = {}
        with self._database.read() as connection:
            found = connection.execute(counts).all()
            for profile, _, count in found:
                jobs[profile] = jobs.get(profile, 0) + count
            if all(code != Code.EXPLORED for _, code, _ in found):
                return jobs, []
            query = select(table).where(*of_then, table.c.code == Code.EXPLORED.value)
            return jobs, [DecisionRecord(**row._mapping) for row in connection.execute(query)]

    def count(self) -> int:
        """How many there are."""
        with self._database.read() as connection:
            return int(
                connection.execute(select(func.count()).select_from(tables.decisions)).scalar_one()
            )

    def prune(self, before_s: float) -> int:
        """Delete decisions older than Unix time ``before_s``; gives how many."""
        table = tables.decisions
        with self._database.write() as connection:
            return int(connection.execute(delete(table).where(table.c.time_s < before_s)).rowcount)
