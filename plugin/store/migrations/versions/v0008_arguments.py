"""Past jobs know what their scripts were given, as digests; jobs from before do not."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0008"
down_revision = "v0007"


def upgrade() -> None:
    """Add the columns, empty."""
    for name in ("arguments", "similar"):
        op.add_column(
            "past_jobs", sa.Column(name, sa.String(80), nullable=False, server_default="")
        )
