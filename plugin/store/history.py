"""Decisions and outcomes: what was answered, and what then happened."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from sqlalchemy import delete, func, insert, select

from berth.plugin.store import tables
from berth.plugin.store.database import Database
from berth.plugin.store.records import DecisionRecord, OutcomeRecord

_COLUMNS = tuple(column.name for column in tables.decisions.columns)
_columns = attrgetter(*_COLUMNS)


class Decisions:
    """The record of every answer, newest last in time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Compiled once and given to the driver as it is: a third of the time of a Core insert,
        # and the daemon's recorder shares its interpreter with the answers.
        holes = ", ".join("?" if database.path is not None else "%s" for _ in _COLUMNS)
        names = ", ".join(f'"{name}"' for name in _COLUMNS)
        self._insert = (
            f"INSERT INTO decisions ({names}) VALUES ({holes}) "  # noqa: S608 - our own names
            "ON CONFLICT (id) DO NOTHING"
        )

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

    def last(
        self,
        count: int,
        *,
        user: str | None = None,
        code: str | None = None,
        profile: str | None = None,
    ) -> list[DecisionRecord]:
        """The newest ``count`` decisions, newest first, of a user, code or profile."""
        table = tables.decisions
        query = select(table).order_by(table.c.time_s.desc(), table.c.id.desc()).limit(count)
        for column, value in (
            (table.c.user, user),
            (table.c.code, code),
            (table.c.profile, profile),
        ):
            if value is not None:
                query = query.where(column == value)
        with self._database.read() as connection:
            return [DecisionRecord(**row._mapping) for row in connection.execute(query)]

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


class Outcomes:
    """What became of jobs, by cluster and job id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, records: Sequence[OutcomeRecord]) -> None:
        """Store a batch in one transaction; a job that is there already is replaced."""
        table = tables.outcomes
        with self._database.write() as connection:
            for record in records:
                connection.execute(
                    delete(table).where(
                        table.c.cluster == record.cluster, table.c.job_id == record.job_id
                    )
                )
                connection.execute(
                    insert(table).values({n: getattr(record, n) for n in record.__slots__})
                )

    def of_job(self, job_id: str, *, cluster: str | None = None) -> OutcomeRecord | None:
        """The outcome of a job, or None."""
        table = tables.outcomes
        query = select(table).where(table.c.job_id == job_id).limit(1)
        if cluster is not None:
            query = query.where(table.c.cluster == cluster)
        with self._database.read() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else OutcomeRecord(**row._mapping)

    def of_decision(self, decision: str) -> list[OutcomeRecord]:
        """Outcomes of the jobs that a decision was made for (an array has several)."""
        table = tables.outcomes
        with self._database.read() as connection:
            rows = connection.execute(select(table).where(table.c.decision == decision))
            return [OutcomeRecord(**row._mapping) for row in rows]
