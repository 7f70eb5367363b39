"""One database for all hosts: SQLite in memory below, and every failure of a real one above it."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from empty_stores import open_store
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool

from berth.plugin.store import Store
from berth.plugin.store.database import Database, add_checksum
from simulator.world import Process, World

PATIENCE_S = 2.0


@cache
def _empty() -> bytes:
    """A store of the present schema."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        open_store(f"sqlite:///{path}").close()
        image = bytearray(path.read_bytes())
        image[18:20] = b"\x01\x01"  # no write-ahead log: there is none in memory
        return bytes(image)


class Server:
    """The database itself."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.down = False
        self.writer: Process | None = None
        self.raw = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.raw.deserialize(_empty())
        add_checksum(self.raw)
        self.raw.execute("PRAGMA foreign_keys=ON")
        self.raw.execute("PRAGMA synchronous=OFF")
        self.engine: Engine = create_engine(
            "sqlite://", creator=lambda: self.raw, poolclass=StaticPool
        )

        @event.listens_for(self.engine, "begin")
        def _begin(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN")

    def close(self) -> None:
        self.engine.dispose()
        self.raw.close()


class SimDatabase(Database):
    """A process' connection to it."""

    def __init__(self, server: Server, process: Process) -> None:
        self.url = URL.create("sqlite", database="/sim/store.db")
        self.path = Path("/sim/store.db")
        self.engine = server.engine
        self._server, self._process = server, process

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self.errors():
            self._trouble("store.read")
            with self.engine.connect() as connection:
                yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        server, process = self._server, self._process
        with self.errors():
            self._trouble("store.begin")
            stop_s = server.world.now_s + PATIENCE_S
            while server.writer is not None and not server.writer.dead:
                if server.world.now_s >= stop_s:
                    raise sqlite3.OperationalError("database is locked")
                server.world.sleep(0.05)
            server.writer = process
            try:
                if server.world.faults.on and server.world.random.random() < 0.05:
                    server.world.sleep(0.01)  # others find it locked
                with self.engine.connect() as connection, connection.begin():
                    yield connection
                    kind = server.world.faults.at("store.commit")
                    if kind == "die":
                        process.die()
                    if kind == "full":
                        raise sqlite3.OperationalError("database or disk is full")
                if kind == "dieafter":
                    process.die()
                if kind == "lost":
                    raise sqlite3.OperationalError("disk I/O error")
            finally:
                if server.writer is process:
                    server.writer = None

    def _trouble(self, point: str) -> None:
        world = self._server.world
        self._process.check()
        kind = world.faults.at(point)
        if kind == "die":
            self._process.die()
        if kind == "slow":
            world.sleep(world.random.choice((0.01, 0.5, 4.0)))
        if kind == "locked":
            world.sleep(PATIENCE_S)
            raise sqlite3.OperationalError("database is locked")
        if kind == "gone" or self._server.down:
            raise sqlite3.OperationalError("unable to open database file")


def store_of(server: Server, process: Process) -> Store:
    """The store as a process opens it. Raises StoreError where it cannot be read."""
    store = Store(SimDatabase(server, process))
    store.identity_and_revision()
    return store
