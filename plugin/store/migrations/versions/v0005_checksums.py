"""Rows have checksums, by which damage is found that leaves a readable value."""

from __future__ import annotations

from berth.plugin.store.migrations.checksums import make_checksums

revision = "v0005"
down_revision = "v0004"


def upgrade() -> None:
    """Make the indexes of checksums."""
    make_checksums()
