"""Alembic's entry point, which runs inside the transaction that ``upgrade`` has opened."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from alembic import context
from alembic.runtime.migration import MigrationContext, MigrationInfo

from berth.pilot.progress import report
from berth.plugin.store.tables import REVISIONS, metadata


def _reported(
    ctx: MigrationContext,  # noqa: ARG001 - Alembic names all four
    step: MigrationInfo,
    heads: Collection[Any],  # noqa: ARG001
    run_args: Mapping[str, Any],  # noqa: ARG001
) -> None:
    """Report progress after each migration."""
    done = REVISIONS.index(step.up_revision_id or "") + 1
    report("changes of the schema made", done, len(REVISIONS))


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite's DDL is transactional once we begin transactions ourselves (database.py does).
    transactional_ddl=True,
    on_version_apply=_reported,
)
context.run_migrations()
