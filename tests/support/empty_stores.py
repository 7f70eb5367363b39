"""Empty SQLite stores without their migrations: a copy of one, under an identity of its own."""

from __future__ import annotations

import secrets
import sqlite3
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path

from berth.plugin.store import Store
from berth.plugin.store.database import Database, add_checksum


@cache
def _file() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        Store.open(path).close()
        return path.read_bytes()


def open_store(url: str) -> Store:
    """``Store.open``, with what is not there yet copied instead of made."""
    path = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:///") and not path.exists():
        Database(path).create_file()  # for its owner and group only
        path.write_bytes(_file())
        with closing(sqlite3.connect(path)) as connection, connection:
            add_checksum(connection)
            change = "UPDATE counters SET value = ? WHERE name = 'identity'"
            assert connection.execute(change, (secrets.randbits(62),)).rowcount == 1
    return Store.open(url)
