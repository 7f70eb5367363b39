"""The tables, in SQL that both SQLite and PostgreSQL support. Times are Unix seconds (UTC).

From the first release on, a change here needs a migration in ``migrations/versions`` and its name
at the end of ``REVISIONS``; a test compares the two.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    text,
)

REVISIONS = tuple(f"v{number:04}" for number in range(1, 2))
"""All schema versions this Berth knows, oldest first. Checked without importing Alembic."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

counters = Table(
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
    comment="'revision' goes up by one with every change that a daemon must see; 'identity' is "
    "drawn once, so that a store put in another's place is told from it",
)

workloads = Table(
    "workloads",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("kind", String(64), nullable=False),
    Column("digest", String(80), nullable=False),
    Column("document", Text, nullable=False),
    Column("owner", String(128), nullable=False),
    Column("created_s", Double, nullable=False),
    Column("share_asked_s", Double, nullable=True),
)

forecasts = Table(
    "forecasts",
    metadata,
    Column(
        "workload", String(128), ForeignKey("workloads.name", ondelete="CASCADE"), primary_key=True
    ),
    Column("bundle", String(128), primary_key=True),
    Column("document", Text, nullable=False),
    Column("created_s", Double, nullable=False),
    Column("revision", BigInteger, nullable=False, index=True),
)

fingerprints = Table(
    "fingerprints",
    metadata,
    Column("digest", String(80), primary_key=True),
    Column("owner", String(128), primary_key=True),
    Column(
        "workload",
        String(128),
        ForeignKey("workloads.name", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column("size", Double, nullable=True),
    Column("created_s", Double, nullable=False),
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("time_s", Double, nullable=False, index=True),
    Column("host", String(255), nullable=False),
    Column("scheduler", String(16), nullable=False),
    Column("user", String(128), nullable=False),
    Column("account", String(128), nullable=True),
    Column("queue", String(255), nullable=True),
    Column("workload", String(128), nullable=True),
    Column("mode", String(16), nullable=False),
    Column("action", String(16), nullable=False),
    Column("code", String(64), nullable=False),
    Column("reason", Text, nullable=False),
    Column("chosen", String(128), nullable=True),
    Column("bundle", String(128), nullable=True),
    Column("policy", String(64), nullable=True),
    Column("inputs_digest", String(80), nullable=False),
    Column("latency_us", Integer, nullable=False),
    Column("request", Text, nullable=False),
    Column("edits", Text, nullable=False),
    Column("ground", String(32), nullable=True),
    Column("ranked", Text, nullable=False),
    Column("ranking", String(32), nullable=True),
    Index("ix_decisions_user_time_s", "user", "time_s"),
    Index("ix_decisions_code_time_s", "code", "time_s"),
    Index("ix_decisions_workload_time_s", "workload", "time_s"),
    Index("ix_decisions_user_code_time_s", "user", "code", "time_s"),
    Index("ix_decisions_user_workload_time_s_code", "user", "workload", "time_s", "code"),
    Index("ix_decisions_workload_code_time_s", "workload", "code", "time_s"),
    comment="'ranking': the digest of what stands in 'rankings' in the place of 'ranked'",
)

rankings = Table(
    "rankings",
    metadata,
    Column("digest", String(32), primary_key=True),
    Column("ranked", Text, nullable=False),
    Column("used_s", Double, nullable=False, index=True),
    comment="alternatives that came more than once; 'used_s': of a decision with it that is at "
    "most a day older than the newest one",
)

UNSEEN = text(
    "workload IS NOT NULL AND (seen_end_s IS NULL OR seen_end_s <> end_s OR seen_state <> state)"
)
"""Condition for outcomes whose present end and state learning has not processed. Queries must use
exactly this text, or the database does not use the partial index for it.
"""

outcomes = Table(
    "outcomes",
    metadata,
    Column("cluster", String(64), primary_key=True),
    Column("job_id", String(64), primary_key=True),
    Column("decision", String(32), nullable=True, index=True),
    Column("user", String(128), nullable=False),
    Column("queue", String(255), nullable=True),
    Column("state", String(32), nullable=False),
    Column("exit_status", Integer, nullable=True),
    Column("submit_s", Double, nullable=True),
    Column("start_s", Double, nullable=True),
    Column("end_s", Double, nullable=True),
    Column("nodes", Integer, nullable=True),
    Column("cores", Integer, nullable=True),
    Column("gpus", Integer, nullable=True),
    Column("time_limit_s", Double, nullable=True),
    Column("max_rss_bytes", BigInteger, nullable=True),
    Column("gpu_peak_bytes", BigInteger, nullable=True),
    Column("energy_j", Double, nullable=True),
    Column("elapsed_s", Double, nullable=True),
    Column("workload", String(128), nullable=True),
    Column("bundle", String(128), nullable=True),
    Column("candidate", String(128), nullable=True),
    Column("platform", String(128), nullable=True),
    Column("predicted_low_s", Double, nullable=True),
    Column("predicted_s", Double, nullable=True),
    Column("predicted_high_s", Double, nullable=True),
    Column("node_list", Text, nullable=False),
    Column("gpu_type", String(64), nullable=False),
    Column("cpu_time_s", Double, nullable=True),
    Column("disk_read_bytes", BigInteger, nullable=True),
    Column("disk_written_bytes", BigInteger, nullable=True),
    Column("gpu_utilisation", Double, nullable=True),
    Column("gpu_utilisation_peak", Double, nullable=True),
    Column("seen_end_s", Double, nullable=True),
    Column("seen_state", String(32), nullable=True),
    Index("ix_outcomes_cluster_end_s", "cluster", "end_s"),
    Index("ix_outcomes_end_s", "end_s"),
    Index("ix_outcomes_job_id", "job_id"),
    # The migration makes this index partial (WHERE UNSEEN). To declare that here, SQLAlchemy would
    # load the dialects of both databases.
    Index("ix_outcomes_unseen", "end_s", "cluster", "job_id"),
    comment="'seen_end_s' and 'seen_state': end and state as learning has looked at them",
)

past_jobs = Table(
    "past_jobs",
    metadata,
    Column("cluster", String(64), primary_key=True),
    Column("job_id", String(64), primary_key=True),
    Column("user", String(255), nullable=False),
    Column("account", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("program", String(64), nullable=False),
    Column("script", String(80), nullable=False),
    Column("arguments", String(80), nullable=False),
    Column("similar", String(80), nullable=False),
    Column("queue", String(255), nullable=False),
    Column("state", String(32), nullable=False),
    Column("submit_s", Double, nullable=False),
    Column("start_s", Double, nullable=False),
    Column("end_s", Double, nullable=False),
    Column("elapsed_s", Double, nullable=False),
    Column("cores", Integer, nullable=False),
    Column("nodes", Integer, nullable=False),
    Column("gpus", Integer, nullable=True),
    Column("time_limit_s", Double, nullable=True),
    Column("request_bytes", BigInteger, nullable=True),
    Column("peak_bytes", BigInteger, nullable=True),
    Column("gpu_peak_bytes", BigInteger, nullable=True),
    Column("peak_source", String(16), nullable=False),
    Column("node_list", Text, nullable=False),
    Column("gpu_type", String(64), nullable=False),
    Column("cpu_time_s", Double, nullable=True),
    Column("disk_read_bytes", BigInteger, nullable=True),
    Column("disk_written_bytes", BigInteger, nullable=True),
    Column("energy_j", Double, nullable=True),
    Column("gpu_utilisation", Double, nullable=True),
    Column("gpu_utilisation_peak", Double, nullable=True),
    Column("gpu_memory_utilisation", Double, nullable=True),
    Column("raw_id", String(64), nullable=False),
    Index("ix_past_jobs_raw_id", "raw_id"),
    Index("ix_past_jobs_user_end_s", "user", "end_s"),
    Index("ix_past_jobs_end_s", "end_s"),
)

nodes = Table(
    "nodes",
    metadata,
    Column("cluster", String(64), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("queues", Text, nullable=False),
    Column("features", Text, nullable=False),
    Column("gpus", Text, nullable=False),
    Column("seen_s", Double, nullable=False),
    comment="nodes as the scheduler last described them: also those that are gone, on which past "
    "jobs ran",
)

memory_needs = Table(
    "memory_needs",
    metadata,
    Column("digest", String(80), primary_key=True),
    Column("user", String(255), nullable=False),
    Column("peak_bytes", BigInteger, nullable=False),
    Column("runs", Integer, nullable=False),
    Column("polled", Integer, nullable=False),
    Column("enough_bytes", BigInteger, nullable=True),
    Column("updated_s", Double, nullable=False),
    comment="largest peaks of past jobs by what a new job may be matched by",
)

usages = Table(
    "usages",
    metadata,
    Column("cluster", String(64), primary_key=True),
    Column("job_id", String(64), primary_key=True),
    Column("source", String(32), primary_key=True),
    Column("node", String(255), primary_key=True),
    Column("step", String(64), primary_key=True),
    Column("reporter", String(128), primary_key=True),
    Column("received_s", Double, nullable=False),
    Column("cpu_time_s", Double, nullable=True),
    Column("peak_bytes", BigInteger, nullable=True),
    Column("disk_read_bytes", BigInteger, nullable=True),
    Column("disk_written_bytes", BigInteger, nullable=True),
    Column("gpus", Integer, nullable=True),
    Column("gpu_peak_bytes", BigInteger, nullable=True),
    Column("gpu_utilisation", Double, nullable=True),
    Column("gpu_memory_utilisation", Double, nullable=True),
    Column("oom_kills", BigInteger, nullable=True),
    Column("cpu_stalled_s", Double, nullable=True),
    Column("memory_stalled_s", Double, nullable=True),
    Column("io_stalled_s", Double, nullable=True),
    Column("counts", Text, nullable=False),
    Column("lacks", Text, nullable=False),
    Index("ix_usages_received_s", "received_s"),
    comment="what jobs used, by source; 'reporter': a user whose word it is, empty: the site's",
)

evidence = Table(
    "evidence",
    metadata,
    Column("cluster", String(64), primary_key=True),
    Column("job_id", String(64), primary_key=True),
    Column("ended_s", Double, nullable=False),
    Column("state", String(32), nullable=False),
    Column("use", String(32), nullable=False),
    Column("user", String(128), nullable=False),
    Column("workload", String(128), nullable=False),
    Column("digest", String(80), nullable=False),
    Column("platform", String(128), nullable=True),
    Column("cores", Integer, nullable=True),
    Column("gpus", Integer, nullable=True),
    Column("size", Double, nullable=True),
    Column("runtime_s", Double, nullable=True),
    Column("memory_bytes", BigInteger, nullable=True),
    Column("score", Double, nullable=True),
    Column("nodes", Integer, nullable=True),
    Index("ix_evidence_user_ended_s", "user", "ended_s"),
    Index("ix_evidence_workload_ended_s", "workload", "ended_s"),
    Index("ix_evidence_job_id", "job_id"),
    Index("ix_evidence_ended_s", "ended_s"),
    comment="'use': used, censored, or why the job is left out; 'score': standard deviations "
    "between its time and what was expected from all jobs before it",
)

learnt = Table(
    "learnt",
    metadata,
    Column(
        "workload", String(128), ForeignKey("workloads.name", ondelete="CASCADE"), primary_key=True
    ),
    Column("user", String(128), primary_key=True),
    Column("document", Text, nullable=False),
    Column("inputs", String(80), nullable=False),
    Column("runs", Integer, nullable=False),
    Column("created_s", Double, nullable=False),
    Column("revision", BigInteger, nullable=False),
    comment="forecasts after finished jobs; 'user': whose jobs they are for, empty: everybody's",
)
