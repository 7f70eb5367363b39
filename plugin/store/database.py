"""Connections to SQLite and PostgreSQL; their errors become StoreError with one sentence.

Each use opens a new SQLite connection (``NullPool``, ``mode=rw``), so that a deleted or replaced
database file is noticed at once: an open connection would go on writing to the unlinked file.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, Row, Select, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InvalidRequestError,
    NoSuchModuleError,
    NoSuchTableError,
)
from sqlalchemy.pool import NullPool

from berth.pilot.errors import StoreError, ToolMissing, UsageError

BUSY_TIMEOUT_S = 5.0
CHECKED_BYTES = 64 * 1024 * 1024
"""Larger SQLite files are not checked for damage at the start of the daemon; ``site doctor`` checks
part of them. Checking so many takes a second.
"""
READ_CHECKED_BYTES = 16 * 1024 * 1024
"""Larger SQLite files are not checked by those who only read, who are people that wait."""
_GROWING = frozenset(("decisions", "rankings", "runs"))
"""Tables that grow with every job."""
_FILE_MODE = 0o660
"""Never readable for other users: the store tells who submitted which job. The umask decides
whether the group may read it.
"""
_STATEMENT_TIMEOUT_MS = 15_000


class Database:
    """A database named by URL (``sqlite:////path``, ``postgresql://...``) or by a SQLite file's
    path.

    ``only_read``: the database itself refuses to write.
    """

    def __init__(
        self,
        url: str | Path,
        *,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        only_read: bool = False,
    ) -> None:
        self.url = _parse(url)
        self.path = _sqlite_path(self.url)
        self.engine: Engine = (
            _postgresql_engine(self.url, busy_timeout_s, only_read=only_read)
            if self.path is None
            else _sqlite_engine(self.path, busy_timeout_s, only_read=only_read)
        )

    @property
    def name(self) -> str:
        """Return the database's name in messages: the file, or the URL without its password."""
        if self.path:
            return str(self.path)
        return self.url.difference_update_query(("password",)).render_as_string(hide_password=True)

    def create_file(self) -> None:
        """Create the SQLite file if it is absent, readable for its owner and group only.

        A file that root creates gets the folder's owner: the daemon's user, who must write to it.
        Raises StoreError where it cannot be created.
        """
        if self.path is None or self.path.exists():
            return
        try:
            self.path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            _set_orphans_aside(self.path)
            with suppress(
                FileExistsError
            ):  # created meanwhile, or a dangling link: opening it will report that
                _make(self.path)
        except OSError as error:
            raise StoreError(
                f"{self.path}: the store cannot be made: {error.strerror}",
                hint="give another place in the site file, or write permission for this user",
            ) from None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection for reads in one consistent snapshot. Raises StoreError."""
        with self.errors(), self.engine.connect() as connection:
            yield connection

    def rows(self, query: Select[Any]) -> Sequence[Row[*tuple[Any, ...]]]:
        """Return all rows of one query. Raises StoreError."""
        with self.read() as connection:
            return connection.execute(query).all()

    def value(self, query: Select[Any]) -> Any:
        """Return the first value of the first row; None: no row. Raises StoreError."""
        with self.read() as connection:
            return connection.execute(query).scalar()

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction; commit at the end, or roll back on error. Raises StoreError."""
        with self.errors(), self.engine.connect() as connection:
            writer = connection.execution_options(berth_writes=True)
            with writer.begin():
                yield writer

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn database errors raised inside the ``with`` block into StoreError."""
        try:
            yield
        except DBAPIError as error:
            raise self.explain(error.orig or error) from None
        except sqlite3.Error as error:
            raise self.explain(error) from None
        except (UnicodeDecodeError, InvalidRequestError, NoSuchTableError) as error:
            # What the driver or SQLAlchemy makes of a damaged schema or text.
            raise self.explain(sqlite3.DatabaseError(f"malformed: {error}")) from None

    def explain(self, error: BaseException) -> StoreError:
        """Return a StoreError with one sentence and a hint for the driver's error."""
        text = " ".join(str(error).split())
        if self.path is not None:
            text = _explained_for_file(self.path, text)
        for needle, sentence, hint in _SENTENCES:
            if needle in text.lower():
                return StoreError(f"{self.name}: {sentence}", hint=hint)
        return StoreError(f"{self.name}: the store failed: {text[:300]}")

    @property
    def is_large(self) -> bool:
        """Return whether the file exceeds ``CHECKED_BYTES``, too large to be checked in full."""
        return self.exceeds(CHECKED_BYTES)

    def exceeds(self, most_bytes: int) -> bool:
        """Return whether the database is a file of more than ``most_bytes``."""
        return self.path is not None and self.path.stat().st_size > most_bytes

    def integrity_problem(self) -> str | None:
        """Return the first damage that SQLite finds in its file; None: intact, or not SQLite.

        That includes rows whose values are not those of their checksum (``migrations.checksums``).
        In a large file only tables that do not grow with every job are checked, since SQLite takes
        5 s to check 1 GB.
        """
        if self.path is None:
            return None
        with self.read() as connection:
            parts = ["1"]
            if self.is_large:
                query = "SELECT name FROM sqlite_master WHERE type = 'table'"
                names = connection.exec_driver_sql(query).scalars().all()
                parts = [f"'{name}'" for name in names if name not in _GROWING]
            for part in parts:
                verdict = connection.exec_driver_sql(f"PRAGMA integrity_check({part})").scalar()
                if verdict != "ok":
                    return str(verdict)
        return None


def _explained_for_file(path: Path, text: str) -> str:
    """Return SQLite's error text, or a more exact one from the state of the file."""
    with suppress(OSError):
        if "unable to open" in text and path.exists():
            return "may not be opened"
        if "disk I/O error" in text and not shutil.disk_usage(path.parent).free:
            return "disk is full"
    return text


_RESTORE = "move the file away and restore a backup; berth serve spools decisions meanwhile"
_SENTENCES = (
    (
        "may not be opened",
        "the store is there, and may not be opened by this user",
        "see whose it is with: ls -ln FILE; it should be the daemon's user's (chown)",
    ),
    (
        "database is locked",
        "another process has kept the store locked for too long",
        "look for a long backup or a stopped process of Berth with: fuser -v FILE",
    ),
    (
        "lock timeout",
        "another process has kept the store locked for too long",
        "look for it with: SELECT * FROM pg_stat_activity",
    ),
    (
        "unable to open database file",
        "the store is not there or may not be opened by this user",
        "make it with: berth site store upgrade; or check the folder's permissions",
    ),
    *(
        (sign, "the store is damaged", _RESTORE)
        for sign in ("malformed", "could not decode to utf-8", "corrupt", "user-defined function")
    ),
    (
        "file is not a database",
        "the file is not a store of Berth's (nor any SQLite database)",
        "check the site file's store URL, or move that file away",
    ),
    ("readonly", "the store is read-only for this user", "check the owner of the file and folder"),
    ("read-only", "the store is read-only for this user", "check the database role's rights"),
    ("disk is full", "the disk with the store is full", "free some space: nothing was changed"),
    ("disk i/o error", "the disk with the store fails", "see the system log"),
    (
        "no such table",
        "the store lacks a table that it should have",
        "make what is missing with: berth site store upgrade",
    ),
    (
        "does not exist",
        "the database, role or table does not exist",
        "create the database and the role, then: berth site store upgrade",
    ),
    (
        "password authentication failed",
        "the database refuses the user or password",
        "check the store URL, or ~/.pgpass",
    ),
    (
        "resolve host",
        "the database's host has no address",
        "check the host's name in the store URL",
    ),
    (
        "connection",
        "the database cannot be reached",
        "check that PostgreSQL runs and accepts this host",
    ),
)


def _parse(url: str | Path) -> URL:
    text = str(url)
    if isinstance(url, Path) or "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        parsed = make_url(text)
    except ArgumentError:
        raise UsageError(
            f"{text!r} is not a store URL",
            hint="write sqlite:////var/lib/berth/berth.db or postgresql://user@host/berth",
        ) from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "postgresql+psycopg"):
        raise UsageError(
            f"{parsed.drivername!r} is not a database that Berth can use",
            hint="write sqlite:////var/lib/berth/berth.db or postgresql://user@host/berth",
        )
    if parsed.drivername == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise UsageError("a store in memory would be lost", hint="name a file: sqlite:////path")
    return parsed


def _make(path: Path) -> None:
    """Create the SQLite file. Raises OSError if the path is a link.

    Through a link, the folder's owner could have root create any file and give it away.
    """
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, _FILE_MODE)
    try:
        folder = path.parent.stat()
        if os.geteuid() == 0 and folder.st_uid != 0:
            os.fchown(file, folder.st_uid, folder.st_gid)
    finally:
        os.close(file)


def _set_orphans_aside(path: Path) -> None:
    """Rename the log of a deleted database: SQLite would replay it into a new database."""
    for suffix in ("-wal", "-shm"):
        orphan = path.with_name(path.name + suffix)
        if orphan.exists():
            orphan.replace(orphan.with_name(orphan.name + ".orphaned"))


def _sqlite_path(url: URL) -> Path | None:
    return Path(url.database or "").absolute() if url.drivername == "sqlite" else None


def _sqlite_engine(path: Path, busy_timeout_s: float, *, only_read: bool) -> Engine:
    uri = f"file:{quote(str(path))}?mode=rw"

    def connect() -> sqlite3.Connection:
        # We begin transactions ourselves, because the driver would run DDL and reads outside of
        # them.
        connection = sqlite3.connect(uri, uri=True, timeout=busy_timeout_s, isolation_level=None)
        add_checksum(connection)
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=NORMAL")
        if only_read:
            connection.execute("PRAGMA query_only=ON")
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("berth_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def add_checksum(connection: sqlite3.Connection) -> None:
    """Give a connection the function that the indexes of checksums need."""
    connection.create_function("berth_checksum", -1, _checksum, deterministic=True)


def _checksum(*values: object) -> int:
    return zlib.crc32(repr(values).encode())


def _postgresql_engine(url: URL, busy_timeout_s: float, *, only_read: bool) -> Engine:
    try:
        return create_engine(
            url,
            pool_size=2,
            max_overflow=2,
            pool_pre_ping=True,
            pool_timeout=busy_timeout_s,
            connect_args={
                "connect_timeout": max(2, round(busy_timeout_s)),
                "options": f"-c statement_timeout={_STATEMENT_TIMEOUT_MS}"
                f" -c lock_timeout={round(busy_timeout_s * 1000)}"
                f" -c default_transaction_read_only={'on' if only_read else 'off'}",
            },
        )
    except (ImportError, NoSuchModuleError):
        raise ToolMissing(
            "psycopg", needed_for="a PostgreSQL store", hint="pip install 'berth[postgresql]'"
        ) from None
