"""On how many nodes finished jobs ran, for learning."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0010"
down_revision = "v0009"


def upgrade() -> None:
    """Add the column; jobs on several nodes, which were left out before, are looked at again."""
    op.add_column("evidence", sa.Column("nodes", sa.Integer, nullable=True))
    op.execute("DELETE FROM evidence WHERE use = 'other-nodes'")
