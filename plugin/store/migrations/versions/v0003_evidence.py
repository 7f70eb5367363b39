"""What learning made of a run stands in its row, and each task of an array is one row."""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    Table,
    and_,
    delete,
    exists,
    insert,
    inspect,
    select,
    update,
)

from berth.plugin.store.migrations.partial import make_partial_indexes
from berth.plugin.store.tables import runs

revision = "v0003"
down_revision = "v0002"

_FROM = {"use": "use", "workload_digest": "digest", "ranked_cores": "cores",
         "ranked_gpus": "gpus", "size": "size", "score": "score"}  # fmt: skip
"""The new columns, with the names that the table ``evidence`` had for them."""


def upgrade() -> None:
    """Move the rows of ``evidence`` into those of their runs, and merge rows of one job."""
    connection = op.get_bind()
    if not inspect(connection).has_table("evidence"):
        return  # the tables were just created, as they are now
    known = {column["name"] for column in inspect(connection).get_columns("runs")}
    for name in _FROM:
        if name not in known:
            op.add_column("runs", Column(name, runs.c[name].type, nullable=True))
    evidence = Table("evidence", MetaData(), autoload_with=connection)
    same_job = and_(evidence.c.cluster == runs.c.cluster, evidence.c.job_id == runs.c.job_id)
    values: dict[str, Any] = {
        name: select(evidence.c[old]).where(same_job).scalar_subquery()
        for name, old in _FROM.items()
    }
    op.execute(update(runs).where(exists().where(same_job)).values(values))
    op.drop_table("evidence")
    make_partial_indexes()
    _merge_tasks(connection)


def _merge_tasks(connection: Connection) -> None:
    """Make one row of the two of a task that was followed as ``9`` and imported as ``7_2``."""
    other = runs.alias()
    pairs = and_(runs.c.cluster == other.c.cluster, runs.c.job_id == other.c.raw_id)
    for row in connection.execute(select(runs, other.c.job_id.label("named")).where(pairs)).all():
        followed = dict(row._mapping)
        name = followed.pop("named")
        key = and_(runs.c.cluster == row.cluster, runs.c.job_id == name)
        imported = connection.execute(select(runs).where(key)).one()._mapping
        told = {column: value for column, value in followed.items() if value not in (None, "")}
        merged = {**imported, **told, "job_id": name, "raw_id": row.job_id}
        same = runs.c.job_id.in_((name, row.job_id))
        connection.execute(delete(runs).where(runs.c.cluster == row.cluster, same))
        connection.execute(insert(runs), merged)
