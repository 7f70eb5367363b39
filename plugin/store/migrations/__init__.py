"""Alembic's scripts: ``env``, and one file per schema change in ``versions``."""
