"""What finished jobs teach: one row a job that was looked at, and the forecasts made from them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0006"
down_revision = "v0005"


def upgrade() -> None:
    """Add the two tables, empty: the first learning looks at the outcomes that are there."""
    op.create_table(
        "evidence",
        sa.Column("cluster", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("ended_s", sa.Double, nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("use", sa.String(32), nullable=False),
        sa.Column("user", sa.String(128), nullable=False),
        sa.Column("profile", sa.String(128), nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("platform", sa.String(128), nullable=True),
        sa.Column("cores", sa.Integer, nullable=True),
        sa.Column("gpus", sa.Integer, nullable=True),
        sa.Column("size", sa.Double, nullable=True),
        sa.Column("runtime_s", sa.Double, nullable=True),
        sa.Column("memory_bytes", sa.BigInteger, nullable=True),
        sa.Column("score", sa.Double, nullable=True),
        sa.PrimaryKeyConstraint("cluster", "job_id", name="pk_evidence"),
    )
    op.create_index("ix_evidence_user_ended_s", "evidence", ["user", "ended_s"])
    op.create_index("ix_evidence_profile_ended_s", "evidence", ["profile", "ended_s"])
    op.create_table(
        "learnt",
        sa.Column("profile", sa.String(128), nullable=False),
        sa.Column("user", sa.String(128), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("inputs", sa.String(80), nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("created_s", sa.Double, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("profile", "user", name="pk_learnt"),
        sa.ForeignKeyConstraint(
            ["profile"], ["workloads.name"], name="fk_learnt_profile", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_learnt_revision", "learnt", ["revision"])
