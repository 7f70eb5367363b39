"""Profiles become workloads, of which a program's profile is one kind."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "v0003"
down_revision = "v0002"

_KINDS = {
    "berth.profile": "program",
    "berth.slice-workload": "slices",
    "berth.model-workload": "model-graph",
    "berth.language-model-workload": "language-model",
    "berth.history-workload": "history",
}


def upgrade() -> None:
    """Rename the table; what refers to it follows. The kind is that of the document's schema."""
    op.rename_table("profiles", "workloads")
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        op.execute("ALTER TABLE workloads RENAME CONSTRAINT pk_profiles TO pk_workloads")
    kind = sa.Column("kind", sa.String(64), nullable=False, server_default="program")
    op.add_column("workloads", kind)
    table = sa.table(
        "workloads", sa.column("name", sa.String), sa.column("kind"), sa.column("document")
    )
    for name in connection.execute(sa.select(table.c.name)).scalars().all():
        document = connection.execute(
            sa.select(table.c.document).where(table.c.name == name)
        ).scalar_one()
        found = _kind_of(document)
        if found != "program":
            connection.execute(sa.update(table).where(table.c.name == name).values(kind=found))


def _kind_of(document: str) -> str:
    try:
        data = json.loads(document)
    except (ValueError, RecursionError):
        return "program"
    schema = data.get("schema") if isinstance(data, dict) else None
    return _KINDS.get(str(schema).partition("/")[0], "program")
