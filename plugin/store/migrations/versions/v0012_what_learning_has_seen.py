"""Which outcomes learning has looked at, so that it reads only those that are new."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "v0012"
down_revision = "v0011"

_LOOKED_BACK_S = 31 * 86_400.0
"""Older outcomes are not learnt from, looked at or not."""
_UNSEEN = (
    "profile IS NOT NULL AND (seen_end_s IS NULL OR seen_end_s <> end_s OR seen_state <> state)"
)


def upgrade() -> None:
    """Add the columns, filled from the evidence, and the index of what was not looked at."""
    op.add_column("outcomes", sa.Column("seen_end_s", sa.Double, nullable=True))
    op.add_column("outcomes", sa.Column("seen_state", sa.String(32), nullable=True))
    op.execute(
        sa.text(
            "UPDATE outcomes SET (seen_end_s, seen_state) = (SELECT ended_s, state FROM evidence "
            "WHERE evidence.cluster = outcomes.cluster AND evidence.job_id = outcomes.job_id) "
            "WHERE end_s >= :since_s"
        ).bindparams(since_s=time.time() - _LOOKED_BACK_S)
    )
    op.create_index(
        "ix_outcomes_unseen",
        "outcomes",
        ["end_s", "cluster", "job_id"],
        sqlite_where=sa.text(_UNSEEN),
        postgresql_where=sa.text(_UNSEEN),
    )
