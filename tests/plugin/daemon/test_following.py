"""The background threads: what changes is seen, what fails is said once and survived."""

from __future__ import annotations

import logging
import shutil
import time
from pathlib import Path

import pytest
from berth_daemon import forecast, wait_until
from made_forecasts import put
from views import quiet_service, site_of, snapshot_of

from berth.pilot.errors import SchedulerError
from berth.plugin.daemon.following import follow_cluster, follow_store
from berth.plugin.daemon.shelf import UNPACKED_KEPT, Shelf
from berth.plugin.daemon.threads import Periodic
from berth.plugin.scheduler import StatesReading
from berth.plugin.store import Store


def test_the_shelf_follows_the_store(store: Store) -> None:
    service = quiet_service()
    step = follow_store(service, store)
    step()
    assert len(service.shelf) == 0
    put(store, forecast("a"), forecast("b"))
    step()
    before = service.shelf
    assert before.names == {"a", "b"}
    step()
    assert service.shelf is before  # nothing new, nothing done
    put(store, forecast("a", gpu_s=5.0))
    store.remove_workload("b")
    step()
    assert service.shelf.names == {"a"}
    found = service.shelf.forecast("a")
    assert found is not None
    assert found.curves["a100-80gb"].points[0].runtime_s.mid == 5.0
    assert service.shelf.forecast("b") is None
    assert before.names == {"a", "b"}


def test_another_store_in_its_place_is_read_from_the_beginning(tmp_path: Path) -> None:
    for name, workload in (("one", "a"), ("two", "b")):
        other = Store.open(tmp_path / name)
        put(other, forecast(workload))
        with other.database.read() as connection:  # nothing stays behind in the log
            connection.exec_driver_sql("SELECT 1")
    service = quiet_service()
    shutil.copy(tmp_path / "one", tmp_path / "store")
    step = follow_store(service, Store.open(tmp_path / "store"))
    step()
    assert service.shelf.names == {"a"}
    shutil.copy(tmp_path / "two", tmp_path / "store")
    step()
    assert service.shelf.names == {"b"}
    assert service.shelf.forecast("b") is not None
    assert service.shelf.forecast("a") is None


def test_only_the_most_recent_forecasts_stay_unpacked() -> None:
    shelf = Shelf.of(forecast(f"p{n}") for n in range(UNPACKED_KEPT + 10))
    first = shelf.forecast("p0")
    assert shelf.forecast("p0") is first
    for n in range(1, UNPACKED_KEPT + 10):
        assert shelf.forecast(f"p{n}") is not None
    again = shelf.forecast("p0")
    assert again is not first
    assert again == first


def test_a_failed_reading_keeps_the_last_state_and_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = quiet_service()
    states = snapshot_of(site_of()).states
    failing = [False]

    def read() -> StatesReading:
        if failing[0]:
            raise SchedulerError("slurmctld does not answer")
        return StatesReading(states)

    thread = Periodic("reader", 99, follow_cluster(service, read))
    with caplog.at_level(logging.INFO):
        thread.once()
        good = service.snapshot
        failing[0] = True
        for _ in range(5):
            thread.once()
        assert service.snapshot is good
        assert thread.problem == "slurmctld does not answer"
        failing[0] = False
        thread.once()
    assert service.snapshot is not good
    assert thread.problem is None
    assert caplog.text.count("slurmctld does not answer") == 1
    assert caplog.text.count("works again") == 1


def test_a_bug_in_a_step_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[float] = []

    def step() -> None:
        calls.append(time.monotonic())
        raise ZeroDivisionError

    thread = Periodic("worker", 0.01, step)
    thread.start()
    wait_until(lambda: len(calls) >= 3)
    assert thread.problem is not None
    assert "ZeroDivisionError" in thread.problem
    thread.stop()
    thread.join()
    assert not thread.is_alive()
    assert caplog.text.count("Traceback") == 1


def test_a_poke_does_the_next_step_now() -> None:
    calls: list[int] = []
    thread = Periodic("worker", 3600, lambda: calls.append(1))
    thread.start()
    wait_until(lambda: len(calls) == 1)
    thread.poke()
    wait_until(lambda: len(calls) == 2)
    thread.stop()
    thread.join()
