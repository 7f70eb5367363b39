"""Creates all tables of ``tables.py``, as they are now; later migrations change older stores only.

Once a release is out, this file keeps a copy of its tables.
"""

from __future__ import annotations

import secrets

from alembic import op
from sqlalchemy import insert

from berth.plugin.store.tables import PARTIAL, counters, metadata, runs

revision = "v0003"
down_revision = None


def upgrade() -> None:
    """Create every table, the store's identity and its revision 0."""
    metadata.create_all(op.get_bind())
    for index in runs.indexes:
        if index.name in PARTIAL:
            where = PARTIAL[index.name]
            op.drop_index(index.name, "runs")
            names = [column.name for column in index.columns]
            op.create_index(index.name, "runs", names, sqlite_where=where, postgresql_where=where)
    op.execute(
        insert(counters).values(
            [
                {"name": "revision", "value": 0},
                {"name": "identity", "value": secrets.randbits(62)},
            ]
        )
    )
