"""Alternatives that many decisions have in common are stored once; one unused index goes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0013"
down_revision = "v0012"


def upgrade() -> None:
    """Add the table, empty; decisions that are there keep theirs beside them."""
    op.create_table(
        "rankings",
        sa.Column("digest", sa.String(32), nullable=False),
        sa.Column("ranked", sa.Text, nullable=False),
        sa.Column("used_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_rankings"),
    )
    op.create_index("ix_rankings_used_s", "rankings", ["used_s"])
    op.drop_index("ix_learnt_revision", "learnt")
    op.add_column("decisions", sa.Column("ranking", sa.String(32), nullable=True))
