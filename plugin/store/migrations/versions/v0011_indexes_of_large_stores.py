"""What is looked for in a store of millions of jobs is found by an index."""

from __future__ import annotations

from alembic import op

revision = "v0011"
down_revision = "v0010"

INDEXES = (
    ("decisions", ("code", "time_s")),
    ("decisions", ("profile", "time_s")),
    ("outcomes", ("job_id",)),
    ("evidence", ("job_id",)),
    ("evidence", ("ended_s",)),
    ("past_jobs", ("end_s",)),
)


def upgrade() -> None:
    """Add the indexes."""
    for table, columns in INDEXES:
        op.create_index(f"ix_{table}_{'_'.join(columns)}", table, list(columns))
