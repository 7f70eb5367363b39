"""Stores on both databases, and a harbour (site, store, daemon) for each test that wants one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from berth_daemon import Harbour, harbour
from databases import NoPostgresql, postgresql
from empty_stores import open_store

from berth.plugin.store import Store


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The URL of a private PostgreSQL server; skips, saying why, where there is none."""
    try:
        server = postgresql()
        url = server.__enter__()
    except NoPostgresql as error:
        pytest.skip(f"NOT TESTED ON POSTGRESQL: {error}")
    yield url
    server.__exit__(None, None, None)


@pytest.fixture
def postgresql_url(postgresql_server: str, request: pytest.FixtureRequest) -> str:
    """A fresh database on that server."""
    name = f"test_{abs(hash(request.node.nodeid))}"
    engine = sqlalchemy.create_engine(
        postgresql_server.replace("postgresql://", "postgresql+psycopg://"),
        isolation_level="AUTOCOMMIT",
    )
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f'CREATE DATABASE "{name}"'))
    engine.dispose()
    return postgresql_server.replace("/postgres?", f"/{name}?")


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address for a store that does not exist yet, on each database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return str(request.getfixturevalue("postgresql_url"))


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An empty store on each database."""
    opened = open_store(store_url)
    yield opened
    opened.close()


@pytest.fixture
def site() -> Iterator[Harbour]:
    """A site with a SQLite store; its daemons end with the test."""
    with harbour() as made:
        yield made
