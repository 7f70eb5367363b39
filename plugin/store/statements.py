"""SQL statements that several modules of the store use."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Table,
    func,
    literal,
    select,
    update,
)

from berth.pilot.progress import steps
from berth.plugin.store import tables
from berth.plugin.store.database import Database

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


class Record(Protocol):
    """Any value class of ``records``: a dataclass with slots that are named as the table's
    columns.
    """

    __slots__: ClassVar[Any]


_PIECE = 500
"""The most values in one statement, since databases limit them."""
_PAGE = 1_000


def in_pieces(values: Collection[str]) -> Iterator[list[str]]:
    """Yield ``values`` in lists that are short enough for one SQL statement."""
    listed = list(values)
    for begin in range(0, len(listed), _PIECE):
        yield listed[begin : begin + _PIECE]


def columns_of(record: Record) -> dict[str, Any]:
    """Return a record's values by column name."""
    return {name: getattr(record, name) for name in record.__slots__}


def insert_into(database: Database, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Return an INSERT in the database's own dialect, which supports ON CONFLICT."""
    if database.path is not None:
        from sqlalchemy.dialects import sqlite  # noqa: PLC0415 - the one that is used

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415

    return postgresql.insert(table)


def upsert(
    database: Database, table: Table, columns: Collection[str], keys: Sequence[str]
) -> postgresql.Insert | sqlite.Insert:
    """Return a statement that inserts rows of ``columns``, replacing rows with the same
    ``keys``.
    """
    insert = insert_into(database, table)
    fresh = {name: insert.excluded[name] for name in columns if name not in keys}
    return insert.on_conflict_do_update(index_elements=list(keys), set_=fresh)


def put_all(
    database: Database,
    table: Table,
    records: Collection[Record],
    keys: Sequence[str],
    *,
    revises: bool = False,
) -> None:
    """Store records in one transaction; rows with the same ``keys`` are replaced.

    ``revises``: raise the store's revision, so that daemons read the change.
    """
    if not records:
        return
    # In a fixed order, so that two daemons that store the same rows do not wait for each other.
    rows = sorted(
        (
            {name: value for name, value in columns_of(record).items() if name in table.c}
            for record in records
        ),
        key=itemgetter(*keys),
    )
    statement = upsert(database, table, rows[0], keys)
    pages = range(0, len(rows), _PAGE)
    with database.write() as connection:
        if revises:
            next_revision(connection)
        for begin in steps(f"pages of {table.name.replace('_', ' ')} stored", pages):
            connection.execute(statement, rows[begin : begin + _PAGE])


def distinct(connection: Connection, column: Column[str]) -> list[str]:
    """Return the distinct values of an index's first column, with one look-up per value."""
    values: list[str] = []
    query = select(func.min(column))
    while True:
        value = connection.execute(query.where(column > values[-1]) if values else query).scalar()
        if value is None:
            return values
        values.append(value)


def newest_end_s(database: Database, table: Table, cluster: str) -> float | None:
    """Return the latest end of a job of this cluster in a table, in Unix time; None: no such
    job.
    """
    newest_s = database.value(select(func.max(table.c.end_s)).where(table.c.cluster == cluster))
    return None if newest_s is None else float(newest_s)


def count_of(connection: Connection, most: int, *where: ColumnElement[bool]) -> int:
    """Return the number of rows that meet a condition on an index, counting at most ``most``."""
    some = select(literal(1)).where(*where).limit(most).subquery()
    return int(connection.execute(select(func.count()).select_from(some)).scalar_one())


def counter(connection: Connection, name: str) -> int:
    """Return the value of a named counter; 0 where it does not exist."""
    table = tables.counters
    value = connection.execute(
        select(table.c.value).where(table.c.name == name)
    ).scalar_one_or_none()
    return int(value or 0)


def next_revision(connection: Connection) -> int:
    """Raise the store's revision by one and return it.

    Call it first in each transaction: its row lock puts the writers in order.
    """
    table = tables.counters
    connection.execute(
        update(table).where(table.c.name == "revision").values(value=table.c.value + 1)
    )
    return counter(connection, "revision")
