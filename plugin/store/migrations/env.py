"""Alembic's entry: runs inside the transaction that ``upgrade`` has opened."""

from __future__ import annotations

from alembic import context

from berth.plugin.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite's DDL is transactional once we begin transactions ourselves (database.py does).
    transactional_ddl=True,
)
context.run_migrations()
