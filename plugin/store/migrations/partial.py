"""The partial indexes, which ``tables.py`` cannot declare: it says why."""

from alembic import op

from berth.plugin.store.tables import PARTIAL, runs


def make_partial_indexes() -> None:
    """Make the indexes for learning hold only the runs that it asks for."""
    for index in runs.indexes:
        if index.name in PARTIAL:
            where = PARTIAL[index.name]
            op.drop_index(index.name, "runs", if_exists=True)
            op.create_index(
                index.name,
                "runs",
                [column.name for column in index.columns],
                sqlite_where=where,
                postgresql_where=where,
            )
