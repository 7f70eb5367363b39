"""Workloads and scripts have owners: the user whose process the kernel vouched for.

Who wrote older rows is not known, whatever their owner said: they are shared, and an admin's.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0004"
down_revision = "v0003"


def upgrade() -> None:
    """Forget unproven owners; let a script stand for another workload for each owner."""
    op.execute("UPDATE workloads SET owner = ''")
    op.add_column("workloads", sa.Column("share_asked_s", sa.Double, nullable=True))
    op.execute("CREATE TABLE fingerprints_before AS SELECT * FROM fingerprints")
    op.drop_table("fingerprints")
    op.create_table(
        "fingerprints",
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("owner", sa.String(128), nullable=False),
        sa.Column("profile", sa.String(128), nullable=False),
        sa.Column("size", sa.Double, nullable=True),
        sa.Column("created_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("digest", "owner", name="pk_fingerprints"),
        sa.ForeignKeyConstraint(
            ["profile"], ["workloads.name"], name="fk_fingerprints_profile", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_fingerprints_profile", "fingerprints", ["profile"])
    op.execute(
        "INSERT INTO fingerprints (digest, owner, profile, size, created_s) "
        "SELECT digest, '', profile, size, created_s FROM fingerprints_before"
    )
    op.execute("DROP TABLE fingerprints_before")
