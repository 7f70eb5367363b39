"""Creates the tables of the first release, which until then are the present tables of
``tables.py``.

Later changes are migrations of their own, and this file then keeps a copy of the released tables:
later migrations would fail on the newest tables.
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
    # A partial index; ``tables.py`` says why it is not declared as partial there.
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
