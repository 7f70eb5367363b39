"""Upgrades a database to the present schema. Alembic is imported only when a migration is
missing.
"""

from __future__ import annotations

from sqlalchemy import Connection, inspect, text

from berth.pilot.errors import StoreError
from berth.plugin.store.database import Database
from berth.plugin.store.tables import REVISIONS

HEAD = REVISIONS[-1]
_FORMER_TABLES = frozenset({"outcomes", "past_jobs", "evidence"})
"""Tables of schemas of before version 0.1."""
WAITED_S = 60.0
"""Seconds to wait for another process that is upgrading the same database."""
_ADVISORY_LOCK = 0x6265727468  # "berth" in ASCII: only one of several hosts migrates at a time


def schema_version(database: Database) -> str | None:
    """Return the schema's version (``v0003``); None for an empty database. Raises StoreError."""
    with database.read() as connection:
        return _version(connection, database)


def _version(connection: Connection, database: Database) -> str | None:
    tables = set(inspect(connection).get_table_names())
    if "alembic_version" not in tables:
        if tables - {"spatial_ref_sys"}:
            raise StoreError(
                f"{database.name}: this database holds tables that are not Berth's",
                hint="give Berth a database of its own",
            )
        return None
    version: str | None = connection.execute(
        text("SELECT version_num FROM alembic_version")
    ).scalar()
    if tables & _FORMER_TABLES:
        raise StoreError(
            f"{database.name}: the store has schema {version} of before version 0.1, older than "
            "this Berth reads",
            hint="move it away and begin a new store: berth site store upgrade",
        )
    if version is not None and version not in REVISIONS:
        raise StoreError(
            f"{database.name}: the store has schema {version}, made by a newer Berth; "
            f"this one knows up to {HEAD}",
            hint="upgrade Berth on this host",
        )
    return version


def upgrade(database: Database) -> str | None:
    """Run the missing migrations and return the schema version before; concurrent calls
    are safe.
    """
    before = schema_version(database)
    if before == HEAD:
        return before
    from alembic import command  # noqa: PLC0415 - the daemon must not carry it
    from alembic.config import Config  # noqa: PLC0415

    patient = Database(database.url.render_as_string(hide_password=False), busy_timeout_s=WAITED_S)
    try:
        if patient.path is not None:
            _use_wal(patient)
        with patient.write() as connection:
            if patient.path is None:
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
                connection.execute(
                    text("SET LOCAL statement_timeout = 0")
                )  # building indexes of millions of rows takes long
            config = Config()
            config.set_main_option("script_location", "berth.plugin.store:migrations")
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    finally:
        patient.engine.dispose()
    return before


def _use_wal(database: Database) -> None:
    with database.errors():
        raw = database.engine.raw_connection()
        try:
            raw.cursor().execute("PRAGMA journal_mode=WAL")
        finally:
            raw.close()
