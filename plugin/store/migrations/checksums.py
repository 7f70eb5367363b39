"""SQLite's indexes of checksums: ``PRAGMA integrity_check`` compares each row with its own.

PostgreSQL has checksums of its own (``data_checksums``).
"""

from alembic import op

from berth.plugin.store.tables import metadata

_FIRST = {"decisions": "time_s", "rankings": "used_s", "runs": "end_s", "usages": "received_s"}
"""Columns by which rows come in their order, so that their entries stand beside each other. The
``+`` keeps queries from taking these indexes for their own."""


def make_checksums() -> None:
    """Make, or make anew, one index a table over the checksums of its rows."""
    if op.get_bind().dialect.name != "sqlite":
        return
    for table in metadata.sorted_tables:
        first = _FIRST.get(table.name) or next(iter(table.primary_key)).name
        columns = ", ".join(f'"{column.name}"' for column in table.columns)
        op.execute(f"DROP INDEX IF EXISTS checksum_{table.name}")
        op.execute(
            f"CREATE INDEX checksum_{table.name} ON {table.name} "
            f'(+"{first}", berth_checksum({columns}))'
        )
