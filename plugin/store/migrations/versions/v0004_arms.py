"""Decisions record the arm that was drawn, how, and the version that decided."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, inspect

from berth.plugin.store.tables import decisions

revision = "v0004"
down_revision = "v0003"


def upgrade() -> None:
    """Add the columns; earlier decisions have no values there."""
    known = {column["name"] for column in inspect(op.get_bind()).get_columns("decisions")}
    for name in ("arm", "control", "share", "version"):
        if name not in known:
            op.add_column("decisions", Column(name, decisions.c[name].type, nullable=True))
