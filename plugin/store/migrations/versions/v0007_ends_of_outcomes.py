"""Jobs that ended since a moment are found by an index, whatever their cluster."""

from __future__ import annotations

from alembic import op

revision = "v0007"
down_revision = "v0006"


def upgrade() -> None:
    """Add the index."""
    op.create_index("ix_outcomes_end_s", "outcomes", ["end_s"])
