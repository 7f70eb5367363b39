"""Faults do what they are named after, and nothing worse."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from chaos.faults import KINDS, Field

READER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("PRAGMA journal_mode = WAL")
connection.execute("CREATE TABLE decisions (number INTEGER)")
connection.execute("INSERT INTO decisions VALUES (0)")
connection.commit()
print(flush=True)
sys.stdin.read()
"""
"""Another process: while it has the database open, nobody's close ends the log."""


def write(store: Path, written: list[int]) -> None:
    """As a daemon does whose decisions wait: a connection of its own, where there is a database."""
    with (
        suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{store}?mode=rw", uri=True, timeout=0)) as connection,
        connection,
    ):
        connection.execute("INSERT INTO decisions VALUES (?)", (len(written),))
        written.append(len(written))


def test_what_is_written_while_the_database_moves_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that opens before its log is back begins a new one, which the old one replaces."""
    store = tmp_path / "berth.db"
    field = cast(Field, SimpleNamespace(store=store))
    (vanished,) = (kind for kind in KINDS if kind.name == "database vanished")
    written = [0]
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert reader.stdout is not None
    reader.stdout.readline()
    write(store, written)
    for name in ("rename", "replace"):
        move = getattr(Path, name)

        def moved(one: Path, target: Any, move: Any = move) -> Any:
            found = move(one, target)
            write(store, written)
            return found

        monkeypatch.setattr(Path, name, moved)
    with vanished.block(field, Random(1)):
        assert not store.exists()
        write(store, written)
    reader.communicate()
    write(store, written)
    with closing(sqlite3.connect(store)) as last:
        assert [row[0] for row in last.execute("SELECT * FROM decisions")] == written
    assert len(written) > 2
