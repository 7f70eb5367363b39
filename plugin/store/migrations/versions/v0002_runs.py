"""One table of runs in the place of outcomes and past jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from alembic import op
from sqlalchemy import (
    ColumnElement,
    FromClause,
    MetaData,
    Table,
    and_,
    case,
    exists,
    func,
    inspect,
    literal,
    select,
)

from berth.plugin.store.migrations.partial import make_partial_indexes
from berth.plugin.store.tables import runs

revision = "v0002"
down_revision = "v0001"

_EMPTY = ("account", "name", "program", "script", "arguments", "similar", "raw_id")
"""Texts that outcomes lack."""


def upgrade() -> None:
    """Move the rows of both tables; a job that is in both becomes one row."""
    connection = op.get_bind()
    if not inspect(connection).has_table("past_jobs"):
        return  # the tables were just created, as they are now
    runs.create(connection)
    make_partial_indexes()
    past, outcomes = (
        Table(name, MetaData(), autoload_with=connection) for name in ("past_jobs", "outcomes")
    )
    same_job = and_(past.c.cluster == outcomes.c.cluster, past.c.job_id == outcomes.c.job_id)
    both = past.outerjoin(outcomes, same_job)
    of_past: dict[str, ColumnElement[Any]] = {
        column.name: column for column in (*outcomes.c, *past.c)
    }
    of_past |= {
        "partition": past.c.queue,
        "followed": case((outcomes.c.job_id.is_not(None), 1)),
        "accounted": literal(1),
    }
    _move(of_past, both)
    of_outcomes: dict[str, ColumnElement[Any]] = {column.name: column for column in outcomes.c}
    of_outcomes |= {
        "partition": func.coalesce(outcomes.c.queue, ""),
        # A run of no time would count as a program that failed at once.
        "elapsed_s": func.coalesce(
            outcomes.c.elapsed_s, outcomes.c.end_s - outcomes.c.start_s, 0.0
        ),
        "peak_bytes": outcomes.c.max_rss_bytes,
        "peak_source": case((outcomes.c.max_rss_bytes > 0, "polled"), else_=""),
        "followed": literal(1),
        **{name: literal("") for name in _EMPTY},
    }
    _move(of_outcomes, outcomes, ~exists().where(same_job))
    op.drop_table("outcomes")
    op.drop_table("past_jobs")


def _move(
    values: Mapping[str, ColumnElement[Any]], rows: FromClause, *where: ColumnElement[bool]
) -> None:
    """Insert rows with those of the values whose names are columns of ``runs``."""
    names = [name for name in values if name in runs.c]
    query = select(*(values[name] for name in names)).select_from(rows).where(*where)
    op.execute(runs.insert().from_select(names, query))
