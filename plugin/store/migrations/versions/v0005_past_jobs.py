"""Past jobs of the accounting, with or without a decision of Berth."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0005"
down_revision = "v0004"


def upgrade() -> None:
    """One row for each job."""
    op.create_table(
        "past_jobs",
        sa.Column("cluster", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("account", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("script", sa.String(80), nullable=False),
        sa.Column("queue", sa.String(255), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("submit_s", sa.Double, nullable=False),
        sa.Column("start_s", sa.Double, nullable=False),
        sa.Column("end_s", sa.Double, nullable=False),
        sa.Column("elapsed_s", sa.Double, nullable=False),
        sa.Column("cores", sa.Integer, nullable=False),
        sa.Column("nodes", sa.Integer, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=True),
        sa.Column("time_limit_s", sa.Double, nullable=True),
        sa.Column("request_bytes", sa.BigInteger, nullable=True),
        sa.Column("peak_bytes", sa.BigInteger, nullable=True),
        sa.Column("peak_source", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "job_id", name="pk_past_jobs"),
    )
    op.create_index("ix_past_jobs_user_end_s", "past_jobs", ["user", "end_s"])
