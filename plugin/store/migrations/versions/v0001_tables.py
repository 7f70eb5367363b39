"""The first tables."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "v0001"
down_revision = None


def upgrade() -> None:
    """Make the tables of the first release."""
    counters = op.create_table(
        "counters",
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("value", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_counters"),
    )
    op.bulk_insert(
        counters,
        [
            {"name": "revision", "value": 0},
            {"name": "identity", "value": secrets.randbits(62)},
        ],
    )
    op.create_table(
        "profiles",
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("owner", sa.String(128), nullable=False),
        sa.Column("created_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_profiles"),
    )
    op.create_table(
        "forecasts",
        sa.Column("profile", sa.String(128), nullable=False),
        sa.Column("bundle", sa.String(128), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("created_s", sa.Double, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("profile", "bundle", name="pk_forecasts"),
        sa.ForeignKeyConstraint(
            ["profile"], ["profiles.name"], name="fk_forecasts_profile", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_forecasts_revision", "forecasts", ["revision"])
    op.create_table(
        "fingerprints",
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("profile", sa.String(128), nullable=False),
        sa.Column("size", sa.Double, nullable=True),
        sa.Column("created_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_fingerprints"),
        sa.ForeignKeyConstraint(
            ["profile"], ["profiles.name"], name="fk_fingerprints_profile", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_fingerprints_profile", "fingerprints", ["profile"])
    _create_decisions()
    _create_outcomes()


def _create_decisions() -> None:
    op.create_table(
        "decisions",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("time_s", sa.Double, nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("scheduler", sa.String(16), nullable=False),
        sa.Column("user", sa.String(128), nullable=False),
        sa.Column("account", sa.String(128), nullable=True),
        sa.Column("queue", sa.String(255), nullable=True),
        sa.Column("profile", sa.String(128), nullable=True),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("code", sa.String(64), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("chosen", sa.String(128), nullable=True),
        sa.Column("bundle", sa.String(128), nullable=True),
        sa.Column("policy", sa.String(64), nullable=True),
        sa.Column("inputs_digest", sa.String(80), nullable=False),
        sa.Column("latency_us", sa.Integer, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("edits", sa.Text, nullable=False),
        sa.Column("ranked", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_decisions"),
    )
    op.create_index("ix_decisions_time_s", "decisions", ["time_s"])
    op.create_index("ix_decisions_user_time_s", "decisions", ["user", "time_s"])


def _create_outcomes() -> None:
    op.create_table(
        "outcomes",
        sa.Column("cluster", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("decision", sa.String(32), nullable=True),
        sa.Column("user", sa.String(128), nullable=False),
        sa.Column("queue", sa.String(255), nullable=True),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("exit_status", sa.Integer, nullable=True),
        sa.Column("submit_s", sa.Double, nullable=True),
        sa.Column("start_s", sa.Double, nullable=True),
        sa.Column("end_s", sa.Double, nullable=True),
        sa.Column("nodes", sa.Integer, nullable=True),
        sa.Column("cores", sa.Integer, nullable=True),
        sa.Column("gpus", sa.Integer, nullable=True),
        sa.Column("time_limit_s", sa.Double, nullable=True),
        sa.Column("max_rss_bytes", sa.BigInteger, nullable=True),
        sa.Column("energy_j", sa.Double, nullable=True),
        sa.PrimaryKeyConstraint("cluster", "job_id", name="pk_outcomes"),
    )
    op.create_index("ix_outcomes_decision", "outcomes", ["decision"])
