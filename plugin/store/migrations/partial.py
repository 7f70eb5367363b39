"""The partial index, which ``tables.py`` cannot declare: it says why."""

from alembic import op

from berth.plugin.store.tables import UNSEEN


def make_unseen_index() -> None:
    """Make the index of the runs that learning has not looked at partial."""
    op.drop_index("ix_runs_unseen", "runs")
    op.create_index(
        "ix_runs_unseen",
        "runs",
        ["end_s", "cluster", "job_id"],
        sqlite_where=UNSEEN,
        postgresql_where=UNSEEN,
    )
