"""The tables of the first release: until it is out, those of ``tables.py`` as they are.

What comes after it is a migration of its own, and this one then keeps a copy of the released
tables: on the newest ones the later migrations would fail.
"""

from __future__ import annotations

import secrets

from alembic import op
from sqlalchemy import insert

from berth.plugin.store.tables import UNSEEN, counters, metadata

revision = "v0001"
down_revision = None


def upgrade() -> None:
    """Create every table, the store's identity and its revision 0."""
    metadata.create_all(op.get_bind())
    # Partial: ``tables.py`` says why it is not declared so.
    op.drop_index("ix_outcomes_unseen", "outcomes")
    op.create_index(
        "ix_outcomes_unseen",
        "outcomes",
        ["end_s", "cluster", "job_id"],
        sqlite_where=UNSEEN,
        postgresql_where=UNSEEN,
    )
    op.execute(
        insert(counters).values(
            [
                {"name": "revision", "value": 0},
                {"name": "identity", "value": secrets.randbits(62)},
            ]
        )
    )
