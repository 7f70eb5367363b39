"""Hosts share one PostgreSQL that stops, comes back and fails over: each decision once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from berth_daemon import wait_until
from databases import NoPostgresql, Postgresql, private_postgresql
from views import knowing_service

from berth.plugin.daemon.record import Answered
from berth.plugin.daemon.recorder import Recorder
from berth.plugin.daemon.spool import Spool
from berth.plugin.store import Store

REQUEST = (
    b'{"v":1,"op":"decide","scheduler":"slurm","job":{"user":"alice","queue":"auto",'
    b'"comment":"berth:stream"}}'
)


@pytest.fixture
def server() -> Iterator[Postgresql]:
    try:
        with private_postgresql() as running:
            yield running
    except NoPostgresql as error:
        pytest.skip(f"NOT TESTED ON POSTGRESQL: {error}")


class Host:
    """A daemon's part that makes decisions and writes them down."""

    def __init__(self, name: str, url: str, folder: Path) -> None:
        self.store = Store.open(url, busy_timeout_s=2.0)
        self.recorder = Recorder(self.store, Spool(folder / f"{name}.spool.jsonl"), retry_s=0.2)
        self.made: list[Answered] = []
        self._service, self._answers = knowing_service()
        self.recorder.start()

    def decide(self, count: int) -> None:
        """Answer so many questions; none waits for the database."""
        for _ in range(count):
            self._service.handle(REQUEST)
        for one in self._answers[len(self.made) :]:
            self.recorder.record(one)
        self.made = list(self._answers)


@pytest.mark.slow
def test_decisions_go_on_and_arrive_once(server: Postgresql, tmp_path: Path) -> None:
    hosts = [Host(name, server.url, tmp_path) for name in ("first", "second", "third")]
    store = hosts[0].store

    def all_there() -> bool:
        return store.decisions.count() == sum(len(host.made) for host in hosts)

    for host in hosts:
        host.decide(200)
    wait_until(all_there)
    server.stop()
    for host in hosts:
        host.decide(100)
    wait_until(lambda: all(host.recorder.spooled == 100 for host in hosts))
    assert all(host.recorder.problem is not None for host in hosts)
    server.start()
    wait_until(all_there)
    for host in hosts:
        host.decide(50)
    wait_until(all_there)
    server.fail_over()
    for host in hosts:
        host.decide(50)
    wait_until(all_there)
    for host in hosts:
        host.recorder.stop(20)
        assert host.recorder.dropped == 0
    made = {one.id for host in hosts for one in host.made}
    assert len(made) == 3 * 400
    assert {record.id for record in store.decisions.last(10_000)} == made
    assert not list(tmp_path.glob("*.spool.jsonl"))
    for host in hosts:
        host.store.close()
