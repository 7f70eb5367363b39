"""Outcomes know what had been predicted for the place where the job ran."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0002"
down_revision = "v0001"


def upgrade() -> None:
    """Add the columns; rows from before have none of it."""
    for name, kind in (
        ("elapsed_s", sa.Double()),
        ("profile", sa.String(128)),
        ("bundle", sa.String(128)),
        ("candidate", sa.String(128)),
        ("platform", sa.String(128)),
        ("predicted_low_s", sa.Double()),
        ("predicted_s", sa.Double()),
        ("predicted_high_s", sa.Double()),
    ):
        op.add_column("outcomes", sa.Column(name, kind, nullable=True))
    op.create_index("ix_outcomes_cluster_end_s", "outcomes", ["cluster", "end_s"])
