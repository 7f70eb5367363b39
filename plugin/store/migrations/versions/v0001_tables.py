"""The tables of the first release."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "v0001"
down_revision = None


def upgrade() -> None:
    """Create every table, the store's identity and its revision 0."""
    _create_counters()
    _create_decisions()
    _create_evidence()
    _create_memory_needs()
    _create_outcomes()
    _create_past_jobs()
    _create_rankings()
    _create_workloads()
    _create_fingerprints()
    _create_forecasts()
    _create_learnt()


def _create_counters() -> None:
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
        sa.Column("workload", sa.String(128), nullable=True),
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
        sa.Column("ranking", sa.String(32), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_decisions"),
    )
    op.create_index("ix_decisions_code_time_s", "decisions", ["code", "time_s"])
    op.create_index("ix_decisions_time_s", "decisions", ["time_s"])
    op.create_index("ix_decisions_user_code_time_s", "decisions", ["user", "code", "time_s"])
    op.create_index("ix_decisions_user_time_s", "decisions", ["user", "time_s"])
    op.create_index(
        "ix_decisions_user_workload_time_s_code",
        "decisions",
        ["user", "workload", "time_s", "code"],
    )
    op.create_index(
        "ix_decisions_workload_code_time_s", "decisions", ["workload", "code", "time_s"]
    )
    op.create_index("ix_decisions_workload_time_s", "decisions", ["workload", "time_s"])


def _create_evidence() -> None:
    op.create_table(
        "evidence",
        sa.Column("cluster", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("ended_s", sa.Double, nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("use", sa.String(32), nullable=False),
        sa.Column("user", sa.String(128), nullable=False),
        sa.Column("workload", sa.String(128), nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("platform", sa.String(128), nullable=True),
        sa.Column("cores", sa.Integer, nullable=True),
        sa.Column("gpus", sa.Integer, nullable=True),
        sa.Column("size", sa.Double, nullable=True),
        sa.Column("runtime_s", sa.Double, nullable=True),
        sa.Column("memory_bytes", sa.BigInteger, nullable=True),
        sa.Column("score", sa.Double, nullable=True),
        sa.Column("nodes", sa.Integer, nullable=True),
        sa.PrimaryKeyConstraint("cluster", "job_id", name="pk_evidence"),
    )
    op.create_index("ix_evidence_ended_s", "evidence", ["ended_s"])
    op.create_index("ix_evidence_job_id", "evidence", ["job_id"])
    op.create_index("ix_evidence_user_ended_s", "evidence", ["user", "ended_s"])
    op.create_index("ix_evidence_workload_ended_s", "evidence", ["workload", "ended_s"])


def _create_memory_needs() -> None:
    op.create_table(
        "memory_needs",
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("peak_bytes", sa.BigInteger, nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("polled", sa.Integer, nullable=False),
        sa.Column("enough_bytes", sa.BigInteger, nullable=True),
        sa.Column("updated_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_memory_needs"),
    )


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
        sa.Column("gpu_peak_bytes", sa.BigInteger, nullable=True),
        sa.Column("energy_j", sa.Double, nullable=True),
        sa.Column("elapsed_s", sa.Double, nullable=True),
        sa.Column("workload", sa.String(128), nullable=True),
        sa.Column("bundle", sa.String(128), nullable=True),
        sa.Column("candidate", sa.String(128), nullable=True),
        sa.Column("platform", sa.String(128), nullable=True),
        sa.Column("predicted_low_s", sa.Double, nullable=True),
        sa.Column("predicted_s", sa.Double, nullable=True),
        sa.Column("predicted_high_s", sa.Double, nullable=True),
        sa.Column("seen_end_s", sa.Double, nullable=True),
        sa.Column("seen_state", sa.String(32), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "job_id", name="pk_outcomes"),
    )
    op.create_index("ix_outcomes_cluster_end_s", "outcomes", ["cluster", "end_s"])
    op.create_index("ix_outcomes_decision", "outcomes", ["decision"])
    op.create_index("ix_outcomes_end_s", "outcomes", ["end_s"])
    op.create_index("ix_outcomes_job_id", "outcomes", ["job_id"])
    unseen = sa.text(
        "workload IS NOT NULL "
        "AND (seen_end_s IS NULL OR seen_end_s <> end_s OR seen_state <> state)"
    )
    op.create_index(
        "ix_outcomes_unseen",
        "outcomes",
        ["end_s", "cluster", "job_id"],
        sqlite_where=unseen,
        postgresql_where=unseen,
    )


def _create_past_jobs() -> None:
    op.create_table(
        "past_jobs",
        sa.Column("cluster", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("account", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("script", sa.String(80), nullable=False),
        sa.Column("arguments", sa.String(80), nullable=False),
        sa.Column("similar", sa.String(80), nullable=False),
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
        sa.Column("gpu_peak_bytes", sa.BigInteger, nullable=True),
        sa.Column("peak_source", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "job_id", name="pk_past_jobs"),
    )
    op.create_index("ix_past_jobs_end_s", "past_jobs", ["end_s"])
    op.create_index("ix_past_jobs_user_end_s", "past_jobs", ["user", "end_s"])


def _create_rankings() -> None:
    op.create_table(
        "rankings",
        sa.Column("digest", sa.String(32), nullable=False),
        sa.Column("ranked", sa.Text, nullable=False),
        sa.Column("used_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_rankings"),
    )
    op.create_index("ix_rankings_used_s", "rankings", ["used_s"])


def _create_workloads() -> None:
    op.create_table(
        "workloads",
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("owner", sa.String(128), nullable=False),
        sa.Column("created_s", sa.Double, nullable=False),
        sa.Column("share_asked_s", sa.Double, nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_workloads"),
    )


def _create_fingerprints() -> None:
    op.create_table(
        "fingerprints",
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("owner", sa.String(128), nullable=False),
        sa.Column("workload", sa.String(128), nullable=False),
        sa.Column("size", sa.Double, nullable=True),
        sa.Column("created_s", sa.Double, nullable=False),
        sa.ForeignKeyConstraint(
            ["workload"], ["workloads.name"], name="fk_fingerprints_workload", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("digest", "owner", name="pk_fingerprints"),
    )
    op.create_index("ix_fingerprints_workload", "fingerprints", ["workload"])


def _create_forecasts() -> None:
    op.create_table(
        "forecasts",
        sa.Column("workload", sa.String(128), nullable=False),
        sa.Column("bundle", sa.String(128), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("created_s", sa.Double, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["workload"], ["workloads.name"], name="fk_forecasts_workload", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("workload", "bundle", name="pk_forecasts"),
    )
    op.create_index("ix_forecasts_revision", "forecasts", ["revision"])


def _create_learnt() -> None:
    op.create_table(
        "learnt",
        sa.Column("workload", sa.String(128), nullable=False),
        sa.Column("user", sa.String(128), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("inputs", sa.String(80), nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("created_s", sa.Double, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["workload"], ["workloads.name"], name="fk_learnt_workload", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("workload", "user", name="pk_learnt"),
    )
