"""The tables, in SQL that both SQLite and PostgreSQL support. Times are Unix seconds (UTC).

A table's columns are the fields of its record (``records``). From the first release on, a change
here or there needs a migration in ``migrations/versions`` and its name at the end of
``REVISIONS``; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

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

from berth.pilot.usage.record import Usage
from berth.plugin.store import records

REVISIONS = tuple(f"v{number:04}" for number in range(3, 6))
"""All schema versions this Berth knows, oldest first. Checked without importing Alembic."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_LENGTHS = {
    "account": 128, "action": 16, "arm": 16, "arguments": 80, "bundle": 128, "candidate": 128,
    "chosen": 128, "cluster": 64, "code": 64, "control": 16, "decision": 32, "digest": 80,
    "gpu_type": 64, "ground": 32, "host": 255, "id": 32, "inputs": 80, "inputs_digest": 80,
    "job_id": 64, "kind": 64, "mode": 16, "name": 128, "node": 255, "owner": 128, "partition": 255,
    "peak_source": 16, "platform": 128, "policy": 64, "program": 64, "queue": 255, "raw_id": 64,
    "reporter": 128, "scheduler": 16, "script": 80, "similar": 80, "source": 32, "state": 32,
    "step": 64, "use": 32, "user": 128, "version": 64, "workload": 128, "workload_digest": 80,
    "seen_state": 32,
}  # fmt: skip
"""Maximum numbers of characters of texts by the name of their column; others have none."""
_AS_RECORDED = {"account": 255, "name": 255, "user": 255}
"""Maximum numbers of characters of names that a scheduler's accounting reports."""
_JOB = ("cluster", "job_id")


def _columns(
    record: type, *keys: str, lengths: Mapping[str, int] = _LENGTHS, but: Collection[str] = ()
) -> list[Column[Any]]:
    """Return a column for each field of a record, but for ``but``; ``keys``: the primary key."""
    columns: list[Column[Any]] = []
    for field in fields(record):
        kind, _, none = str(field.type).partition(" | ")
        sql_type: Any = Double
        if kind == "str":
            sql_type = String(lengths[field.name]) if field.name in lengths else Text
        elif kind == "int":
            sql_type = BigInteger if field.name.endswith(("_bytes", "_kills")) else Integer
        if field.name not in but:
            is_key = field.name in keys
            columns.append(Column(field.name, sql_type, primary_key=is_key, nullable=bool(none)))
    return columns


def _workload(*, is_key: bool = True) -> Column[Any]:
    """Return the column of a workload's name in a table whose rows are removed with it."""
    stored = ForeignKey("workloads.name", ondelete="CASCADE")
    return Column("workload", String(128), stored, primary_key=is_key, nullable=False)


counters = Table(
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
    comment="'revision' goes up by one with every change that a daemon must see; 'identity' is "
    "drawn once, so that a store put in another's place is told from it",
)

workloads = Table("workloads", metadata, *_columns(records.WorkloadRecord, "name"))

forecasts = Table(
    "forecasts",
    metadata,
    _workload(),
    *_columns(records.ForecastRecord, "bundle", but=("workload",)),
    Column("revision", BigInteger, nullable=False, index=True),
)

fingerprints = Table(
    "fingerprints",
    metadata,
    *_columns(records.FingerprintRecord, "digest", "owner", but=("workload",)),
    _workload(is_key=False),
    Index("ix_fingerprints_workload", "workload"),
)

decisions = Table(
    "decisions",
    metadata,
    *_columns(records.DecisionRecord, "id"),
    Column("ranking", String(32), nullable=True),
    Index("ix_decisions_time_s", "time_s"),
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
"""Condition for runs whose present end and state learning has not processed. Queries must use
exactly this text, or the database does not use the partial index for it.
"""

LOOKED_AT = text("use IS NOT NULL")
"""Condition for runs that learning has looked at; see ``UNSEEN``."""
PARTIAL = {"ix_runs_unseen": UNSEEN, "ix_runs_looked_at": LOOKED_AT}

runs = Table(
    "runs",
    metadata,
    *_columns(records.PlacedRun, *_JOB, lengths=_LENGTHS | _AS_RECORDED),
    Column("followed", Integer, nullable=True),
    Column("accounted", Integer, nullable=True),
    Index("ix_runs_decision", "decision"),
    Index("ix_runs_followed_cluster_end_s", "followed", "cluster", "end_s"),
    Index("ix_runs_followed_end_s", "followed", "end_s"),
    Index("ix_runs_accounted_cluster_end_s", "accounted", "cluster", "end_s"),
    Index("ix_runs_user_end_s", "user", "end_s"),
    Index("ix_runs_end_s", "end_s"),
    Index("ix_runs_job_id", "job_id"),
    Index("ix_runs_raw_id", "raw_id"),
    # The migration makes these two indexes partial (``PARTIAL``). To declare that here, SQLAlchemy
    # would load the dialects of both databases.
    Index("ix_runs_unseen", "end_s", "cluster", "job_id"),
    Index("ix_runs_looked_at", "user", "end_s", "cluster", "job_id"),
    comment="'followed': 1 where Berth decided on the job and its end is known; 'accounted': 1 "
    "where accounting was imported; from 'use' on: how learning uses the run",
)

nodes = Table(
    "nodes",
    metadata,
    *_columns(records.NodeRecord, "cluster", "name", lengths=_LENGTHS | _AS_RECORDED),
    comment="nodes as the scheduler last described them: also those that are gone, on which past "
    "jobs ran",
)

memory_needs = Table(
    "memory_needs",
    metadata,
    *_columns(records.MemoryNeedRecord, "digest", lengths=_LENGTHS | _AS_RECORDED),
    comment="largest peaks of past jobs by what a new job may be matched by",
)

usages = Table(
    "usages",
    metadata,
    *_columns(Usage, *_JOB, "source", "node", "step", "reporter"),
    Index("ix_usages_received_s", "received_s"),
    comment="what jobs used, by source; 'reporter': a user whose word it is, empty: the site's",
)

learnt = Table(
    "learnt",
    metadata,
    _workload(),
    *_columns(records.LearntRecord, "user", but=("workload",)),
    Column("revision", BigInteger, nullable=False),
    comment="forecasts after finished jobs; 'user': whose jobs they are for, empty: everybody's",
)
