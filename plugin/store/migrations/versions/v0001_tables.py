"""Creates all tables of ``tables.py``, as they are now; later migrations change older stores only.

Once a release is out, this file keeps a copy of its tables.
"""

from __future__ import annotations

import secrets

from alembic import op
from sqlalchemy import insert

from berth.plugin.store.migrations.partial import make_partial_indexes
from berth.plugin.store.tables import counters, metadata

revision = "v0001"
down_revision = None


def upgrade() -> None:
    """Create every table, the store's identity and its revision 0."""
    metadata.create_all(op.get_bind())
    make_partial_indexes()
    op.execute(
        insert(counters).values(
            [
                {"name": "revision", "value": 0},
                {"name": "identity", "value": secrets.randbits(62)},
            ]
        )
    )
