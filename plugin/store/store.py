"""The store's main interface: opens the database, stores workloads and forecasts, and looks them
up.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Row, Select, Table, delete, func, select, update
from sqlalchemy.exc import IntegrityError

from berth.pilot.errors import StoreError, UsageError
from berth.plugin.store import tables
from berth.plugin.store.database import (
    BUSY_TIMEOUT_S,
    CHECKED_BYTES,
    READ_CHECKED_BYTES,
    Database,
)
from berth.plugin.store.decisions import Decisions
from berth.plugin.store.learning import Learning, changed_since
from berth.plugin.store.needs import MemoryNeeds, Nodes, memory_needs
from berth.plugin.store.records import (
    FingerprintRecord,
    ForecastRecord,
    LearntRecord,
    MemoryNeedRecord,
    WorkloadRecord,
)
from berth.plugin.store.runs import Outcomes, PastJobs
from berth.plugin.store.statements import columns_of, counter, in_pieces, next_revision, upsert
from berth.plugin.store.upgrade import HEAD, schema_version, upgrade
from berth.plugin.store.usages import Usages


@dataclass(frozen=True, slots=True)
class Changes:
    """All data that a daemon needs to bring its cache of the store up to ``revision``."""

    identity: int
    revision: int
    workloads: frozenset[str]
    """The names of all workloads now in the store."""
    without_forecast: frozenset[str]
    forecasts: tuple[ForecastRecord, ...]
    """The newest forecast of each workload whose forecast changed."""
    fingerprints: tuple[FingerprintRecord, ...]
    """All fingerprints of scripts in the store."""
    learnt: tuple[LearntRecord, ...] = ()
    """The forecasts learnt from past runs that changed."""
    learnt_keys: frozenset[tuple[str, str]] = frozenset()
    """Workload and user of each learnt forecast that is still valid."""
    memory_needs: tuple[MemoryNeedRecord, ...] = ()
    """The memory needs of all workloads in the store."""


class Store:
    """Workloads, forecasts, fingerprints, decisions and outcomes in one database.

    Every method raises StoreError with a sentence when the database is locked, absent, damaged,
    read-only or of a newer schema; no change is then written in part.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.decisions = Decisions(database)
        self.outcomes = Outcomes(database)
        self.past_jobs = PastJobs(database)
        self.nodes = Nodes(database)
        self.learning = Learning(database)
        self.memory_needs = MemoryNeeds(database)
        self.usages = Usages(database)

    @classmethod
    def open(
        cls, url: str | Path, *, create: bool = True, busy_timeout_s: float = BUSY_TIMEOUT_S
    ) -> Store:
        """Open a store to write to it. Raises StoreError: it is damaged, or of another schema.

        ``create``: first create the database or upgrade its schema.
        """
        database = Database(url, busy_timeout_s=busy_timeout_s)
        if create:
            database.create_file()
            if schema_version(database) != HEAD:
                upgrade(database)
        return cls._checked(database, CHECKED_BYTES)

    @classmethod
    def reading(
        cls, url: str | Path, *, check: bool = True, busy_timeout_s: float = BUSY_TIMEOUT_S
    ) -> Store:
        """Open a store that is only read: it refuses to write. Raises StoreError as ``open`` does.

        ``check``: search it for damage.
        """
        database = Database(url, busy_timeout_s=busy_timeout_s, only_read=True)
        return cls._checked(database, READ_CHECKED_BYTES if check else 0)

    @classmethod
    def _checked(cls, database: Database, most_bytes: int) -> Store:
        """Return the store, searched for damage if it has at most so many bytes."""
        version = schema_version(database)
        if version != HEAD:
            present_schema = f"has schema {version}" if version else "is empty"
            raise StoreError(
                f"{database.name}: the store {present_schema}; this Berth needs {HEAD}",
                hint="run: berth site store upgrade",
            )
        if not database.exceeds(most_bytes) and (problem := database.integrity_problem()):
            raise StoreError(
                f"{database.name}: the store is damaged: {problem}",
                hint="move the file away and restore a backup",
            )
        return cls(database)

    @property
    def name(self) -> str:
        """Return what messages call the store: the file, or the URL without its password."""
        return self.database.name

    def close(self) -> None:
        """Close all database connections."""
        self.database.engine.dispose()

    # Workloads, their forecasts and the scripts attached to them

    def add(self, record: WorkloadRecord, *, replace: bool = False) -> None:
        """Store a workload.

        Raises UsageError where a different workload of that name is stored, unless ``replace``.
        """
        with self.database.write() as connection:
            next_revision(connection)
            stored_digest = connection.execute(
                select(tables.workloads.c.digest).where(tables.workloads.c.name == record.name)
            ).scalar()
            if stored_digest is not None and stored_digest != record.digest and not replace:
                raise UsageError(
                    f"a different workload named {record.name!r} is in the store already",
                    hint="give another --name, or --replace to put this one in its place",
                )
            values = columns_of(record)
            connection.execute(upsert(self.database, tables.workloads, values, ("name",)), values)
            if stored_digest not in (None, record.digest):
                # the stored forecasts are for the old content
                table = tables.forecasts
                connection.execute(delete(table).where(table.c.workload == record.name))

    def workload(self, name: str) -> WorkloadRecord | None:
        """Return the workload of that name, or None."""
        table = tables.workloads
        return next(iter(self._workloads(select(table).where(table.c.name == name))), None)

    def workloads_of(self, names: Collection[str]) -> list[WorkloadRecord]:
        """Return the stored workloads among these names."""
        table = tables.workloads
        queries = (select(table).where(table.c.name.in_(piece)) for piece in in_pieces(names))
        return [record for query in queries for record in self._workloads(query)]

    def workloads(self) -> list[WorkloadRecord]:
        """Return all workloads, sorted by name."""
        return self._workloads(select(tables.workloads).order_by(tables.workloads.c.name))

    def _workloads(self, query: Select[Any]) -> list[WorkloadRecord]:
        return [WorkloadRecord(**row._mapping) for row in self.database.rows(query)]

    def names(self) -> list[str]:
        """Return the names of all workloads, sorted."""
        query = select(tables.workloads.c.name).order_by(tables.workloads.c.name)
        return [row.name for row in self.database.rows(query)]

    def ask_to_share(self, name: str, asked_s: float) -> bool:
        """Record that a workload's owner wants it shared; return False if no workload has that
        name.
        """
        table = tables.workloads
        with self.database.write() as connection:
            updated = connection.execute(
                update(table).where(table.c.name == name).values(share_asked_s=asked_s)
            )
        return bool(updated.rowcount)

    def count_of(self, owner: str) -> int:
        """Return the number of workloads whose name begins with ``OWNER/``."""
        table = tables.workloads
        own = table.c.name.startswith(owner + "/", autoescape=True)
        return int(self.database.value(select(func.count()).select_from(table).where(own)))

    def count_scripts(self, owner: str) -> int:
        """Return the number of job scripts that this owner has attached to workloads."""
        table = tables.fingerprints
        query = select(func.count()).select_from(table).where(table.c.owner == owner)
        return int(self.database.value(query))

    def workloads_after(self, name: str, user: str | None, count: int) -> list[WorkloadRecord]:
        """Return the next ``count`` workloads by name after ``name``.

        ``user``: only that user's own workloads and shared ones; None: all.
        """
        table = tables.workloads
        query = select(table).where(table.c.name > name).order_by(table.c.name).limit(count)
        if user is not None:
            own = table.c.name.startswith(user + "/", autoescape=True)
            query = query.where(own | table.c.name.not_like("%/%"))
        return self._workloads(query)

    def bundles(self, names: Collection[str]) -> dict[str, list[str]]:
        """Return the bundles that made each workload's forecasts by workload name, newest first."""
        table = tables.forecasts
        by_workload: dict[str, list[str]] = {}
        with self.database.read() as connection:
            for piece in in_pieces(names):
                query = select(table.c.workload, table.c.bundle).where(table.c.workload.in_(piece))
                for row in connection.execute(query.order_by(table.c.revision.desc())):
                    by_workload.setdefault(row.workload, []).append(row.bundle)
        return by_workload

    def remove_workload(self, name: str) -> bool:
        """Remove a workload, its forecasts and fingerprints; return False if no workload has that
        name.
        """
        with self.database.write() as connection:
            next_revision(connection)
            deleted = connection.execute(
                delete(tables.workloads).where(tables.workloads.c.name == name)
            )
        return bool(deleted.rowcount)

    def put_forecast(self, record: ForecastRecord) -> None:
        """Store a forecast, replacing the workload's older forecast by the same model bundle."""
        self._put_for_workload(tables.forecasts, record, "bundle", "workload", revised=True)

    def forecasts(self, workload: str) -> list[ForecastRecord]:
        """Return the forecasts of a workload, newest first."""
        table = tables.forecasts
        query = select(table).where(table.c.workload == workload)
        return [
            _forecast(row) for row in self.database.rows(query.order_by(table.c.revision.desc()))
        ]

    def forecasts_of(self, workloads: Collection[str]) -> dict[str, ForecastRecord]:
        """Return the newest forecast of each of these workloads that has one, by name."""
        table = tables.forecasts
        newest: dict[str, ForecastRecord] = {}
        with self.database.read() as connection:
            for piece in in_pieces(workloads):
                query = select(table).where(table.c.workload.in_(piece)).order_by(table.c.revision)
                newest |= {row.workload: _forecast(row) for row in connection.execute(query)}
        return newest

    def attach_script(self, record: FingerprintRecord) -> None:
        """Map a script's fingerprint to a workload for jobs of the fingerprint's owner.

        Replaces the workload that the owner mapped this fingerprint to before.
        """
        self._put_for_workload(tables.fingerprints, record, "digest", "owner")

    def _put_for_workload(
        self,
        table: Table,
        record: ForecastRecord | FingerprintRecord,
        *keys: str,
        revised: bool = False,
    ) -> None:
        """Store a record of a stored workload; ``revised``: with the store's new revision."""
        with self.database.write() as connection:
            revision = next_revision(connection)
            values = columns_of(record) | ({"revision": revision} if revised else {})
            try:
                connection.execute(upsert(self.database, table, values, keys), values)
            except IntegrityError:
                raise UsageError(
                    f"no workload named {record.workload!r} is in the store",
                    hint="add it first with: berth workload add FILE",
                ) from None

    def fingerprints(self, workload: str) -> list[FingerprintRecord]:
        """Return the fingerprints of scripts attached to a workload."""
        table = tables.fingerprints
        query = select(table).where(table.c.workload == workload).order_by(table.c.created_s)
        return [FingerprintRecord(**row._mapping) for row in self.database.rows(query)]

    # Changes that the daemon polls for

    def revision(self) -> int:
        """Return the revision, which rises when a workload, forecast or fingerprint changes."""
        with self.database.read() as connection:
            return counter(connection, "revision")

    def identity_and_revision(self) -> tuple[int, int]:
        """Return the store's identity (unique to each store) and its revision."""
        with self.database.read() as connection:
            return counter(connection, "identity"), counter(connection, "revision")

    def changes_since(self, revision: int) -> Changes:
        """Return the store's changes after ``revision`` (0: everything)."""
        table = tables.forecasts
        with self.database.read() as connection:
            identity = counter(connection, "identity")
            now = counter(connection, "revision")
            names = connection.execute(select(tables.workloads.c.name)).scalars().all()
            rows = connection.execute(
                select(table).where(table.c.revision > revision).order_by(table.c.revision)
            )
            newest = {row.workload: _forecast(row) for row in rows}
            forecast = connection.execute(select(table.c.workload).distinct()).scalars().all()
            scripts = [
                FingerprintRecord(**row._mapping)
                for row in connection.execute(select(tables.fingerprints))
            ]
            learnt, learnt_keys = changed_since(connection, revision)
            needs = memory_needs(connection)
        return Changes(
            identity,
            now,
            frozenset(names),
            frozenset(names) - frozenset(forecast),
            tuple(newest.values()),
            tuple(scripts),
            tuple(learnt),
            frozenset(learnt_keys),
            tuple(needs),
        )


def _forecast(row: Row[tuple[object, ...]]) -> ForecastRecord:
    return ForecastRecord(row.workload, row.bundle, row.document, row.created_s)
