"""Alembic's scripts: ``env`` and one file a schema change in ``versions``."""
