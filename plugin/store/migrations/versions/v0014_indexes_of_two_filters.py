"""Decisions are looked up by two conditions at once, however many there are of each."""

from __future__ import annotations

from alembic import op

revision = "v0014"
down_revision = "v0013"

INDEXES = (
    ("user", "code", "time_s"),
    ("user", "profile", "time_s", "code"),
    ("profile", "code", "time_s"),
)


def upgrade() -> None:
    """Add the indexes."""
    for columns in INDEXES:
        op.create_index(f"ix_decisions_{'_'.join(columns)}", "decisions", list(columns))
