"""Memory that past jobs needed, as submissions look it up."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0009"
down_revision = "v0008"


def upgrade() -> None:
    """Add the table, empty."""
    op.create_table(
        "memory_needs",
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("peak_bytes", sa.BigInteger, nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("polled", sa.Integer, nullable=False),
        sa.Column("enough_bytes", sa.BigInteger, nullable=True),
        sa.Column("updated_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_memory_needs"),
    )
