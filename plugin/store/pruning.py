"""Deletes old rows while other processes write, in many short transactions of adaptive size."""

from __future__ import annotations

import time
from collections.abc import Iterator

from sqlalchemy import Column, Table, func, select, text

from berth.pilot.progress import is_shown, report
from berth.plugin.store.database import Database
from berth.plugin.store.tables import PARTIAL

PIECE_S = 0.2
"""Intended seconds per transaction: other writers wait at most for one transaction."""
PAUSE_S = 0.1
"""The longest pause in seconds between two transactions; the pause equals the last transaction's
time where that is shorter. Others that wait for SQLite's lock retry every 0.1 s.
"""
FIRST_ROWS = 200
MOST_ROWS = 50_000
_GROWTH = 2.0
"""The largest factor by which one transaction may have more rows than the one before."""
_READ_AHEAD = 50_000
"""Rows whose pages are read before the first of them is deleted, outside the lock: in a large file
reading takes most of the time.
"""
_CACHE_KIB = 64 * 1024
"""SQLite's page cache in KiB. Each transaction changes pages of every index; they are written only
once where all of them fit.
"""

# Rows are deleted by their address (rowid, ctid), found through the column's index. A join by the
# primary key would read a second index for each row; times alone do not identify rows.
_SQLITE = """
DELETE FROM {table} WHERE rowid IN
  (SELECT rowid FROM {table} WHERE {column} < :before_s ORDER BY {column} LIMIT :count)
"""
_OF_INDEX = """
SELECT count(*) FROM (SELECT {columns} FROM {table} WHERE {column} < :before_s
  ORDER BY {column} LIMIT :count) AS old CROSS JOIN {table} AS same {by} WHERE {equal}
"""
# Each transaction begins at the time where the last one ended, since PostgreSQL's index holds
# deleted rows until the next vacuum.
_POSTGRESQL = """
WITH gone AS (
  DELETE FROM {table} WHERE {column} < :before_s AND ctid = ANY (ARRAY(
    SELECT ctid FROM {table} WHERE {column} >= :from_s AND {column} < :before_s
    ORDER BY {column} LIMIT :count))
  RETURNING {column} AS time_s)
SELECT count(*), max(time_s) FROM gone
"""


def delete_before(database: Database, column: Column[float], before_s: float) -> int:
    """Delete rows whose ``column`` is less than ``before_s``; return their number.

    Rows are deleted in short transactions with pauses, so that the writers of decisions never wait
    long, and finished transactions stay where the deletion is interrupted.
    """
    name, count, expected = column.table.name, 0, 0
    if is_shown():
        expected = _count_before(database, column, before_s)
    kind = _Pieces if database.path is None else _PiecesOfFile
    pieces = kind(database, column, before_s)
    rows = FIRST_ROWS
    while True:
        begun_s = time.monotonic()
        deleted, held_s = pieces.delete(rows)
        free_s = time.monotonic() - begun_s - held_s
        count += deleted
        report(f"{name} deleted", count, expected if deleted else count)
        if not deleted:
            return count
        time.sleep(max(0.0, min(held_s, PAUSE_S) - free_s))
        rows = _next_rows(rows, held_s)


def _next_rows(rows: int, held_s: float) -> int:
    """Return how many rows should take ``PIECE_S``, given that ``rows`` took ``held_s`` seconds."""
    factor = min(_GROWTH, PIECE_S / max(held_s, 1e-6))
    return max(1, min(MOST_ROWS, round(rows * factor)))


class _Pieces:
    """Deletes the oldest rows of a PostgreSQL table, some per transaction."""

    def __init__(self, database: Database, column: Column[float], before_s: float) -> None:
        self._database = database
        self._before_s = before_s
        self._from_s = float("-inf")
        self._statement = text(_POSTGRESQL.format(table=column.table.name, column=column.name))

    def delete(self, count: int) -> tuple[int, float]:
        """Delete at most ``count`` rows; return their number and the transaction's time in
        seconds.
        """
        values = {"before_s": self._before_s, "from_s": self._from_s, "count": count}
        begun_s = time.monotonic()
        with self._database.write() as connection:
            deleted, newest_s = connection.execute(self._statement, values).one()
        self._from_s = self._from_s if newest_s is None else newest_s
        return int(deleted), time.monotonic() - begun_s


class _PiecesOfFile:
    """Deletes the oldest rows of a SQLite table, some per transaction: one writer blocks all
    others.
    """

    def __init__(self, database: Database, column: Column[float], before_s: float) -> None:
        self._database = database
        self._before_s = before_s
        self._ahead = 0
        """Rows that were read ahead and not yet deleted."""
        self._statement = text(_SQLITE.format(table=column.table.name, column=column.name))
        self._of_indexes = [text(statement) for statement in _index_statements(column)]

    def delete(self, count: int) -> tuple[int, float]:
        """Delete at most ``count`` rows; return their number and the seconds for which the file was
        locked.
        """
        if self._ahead < count:
            self._read_ahead(max(count, _READ_AHEAD))
        begun_s = time.monotonic()
        with self._database.write() as connection:
            connection.exec_driver_sql(f"PRAGMA cache_size = -{_CACHE_KIB}")
            connection.exec_driver_sql("PRAGMA wal_autocheckpoint = 0")
            values = {"before_s": self._before_s, "count": count}
            deleted = int(connection.execute(self._statement, values).rowcount)
        took_s = time.monotonic() - begun_s
        self._ahead -= deleted
        with self._database.read() as connection:  # in a commit, others would wait for this
            connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")
        return deleted, took_s

    def _read_ahead(self, count: int) -> None:
        with self._database.read() as connection:
            for statement in self._of_indexes:
                connection.execute(statement, {"before_s": self._before_s, "count": count})
        self._ahead = count


def _index_statements(column: Column[float]) -> Iterator[str]:
    """Yield statements that read the oldest rows' entries in each index that is not ordered by
    time.

    In an index ordered by time these entries are adjacent, so that reading ahead gains nothing. A
    partial index, which lacks some of the rows, cannot be read so.
    """
    table = column.table
    assert isinstance(table, Table)  # noqa: S101
    names = {
        index.name: [indexed.name for indexed in index.columns]
        for index in table.indexes
        if index.name not in PARTIAL
    }
    every = [("", [indexed.name for indexed in table.primary_key])]
    every += [(f"INDEXED BY {name}", columns) for name, columns in names.items()]
    for by, columns in every:
        if columns[0] != column.name:
            yield _OF_INDEX.format(
                table=table.name,
                column=column.name,
                by=by,
                columns=", ".join(f'"{indexed}"' for indexed in columns),
                equal=" AND ".join(f'same."{indexed}" IS old."{indexed}"' for indexed in columns),
            )


def _count_before(database: Database, column: Column[float], before_s: float) -> int:
    with database.read() as connection:
        query = select(func.count()).where(column < before_s)
        return int(connection.execute(query).scalar_one())
