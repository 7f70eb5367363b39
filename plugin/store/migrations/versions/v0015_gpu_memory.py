"""How much GPU memory jobs held, beside the host's."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0015"
down_revision = "v0014"


def upgrade() -> None:
    """Add the columns."""
    for table in ("outcomes", "past_jobs"):
        op.add_column(table, sa.Column("gpu_peak_bytes", sa.BigInteger, nullable=True))
