"""What both filters report of their circuit breaker, and what the daemon makes of it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from fake_daemon import KEEP, FakeDaemon
from filter_bench import FilterBench, require_lua
from flux_bench import FluxBench, asking
from views import knowing_service

from berth.plugin.daemon.stats import MOST_SUBMISSIONS, Breakers, Streak, streak_in

SETTINGS = {"breaker_failures": 2, "breaker_first_pause_s": 0.05, "deadline_ms": 1000}


def failing_first(failures: int) -> Any:
    """Answers nonsense that often, then as a daemon of any version does."""
    answered = [b"no\n"] * failures

    def answer(_: dict[str, Any]) -> Any:
        return answered.pop() if answered else KEEP

    return answer


def test_the_slurm_filter_reports_each_streak_until_it_is_answered(tmp_path: Path) -> None:
    require_lua()
    bench, before_ms = FilterBench(tmp_path, settings=dict(SETTINGS)), 1000 * time.time()
    with FakeDaemon(bench.socket, failing_first(3)) as daemon:
        outcome = bench.submit({}, submissions=60, pause_s=0.01)
    assert outcome.codes == [0] * 60
    first, second, probe, answered, *later = [one.get("breaker") for one in daemon.requests]
    assert first is None
    assert second["undecided"] == 1
    assert "opened" not in second
    assert probe["opened"] == answered["opened"] == 1
    assert before_ms - 1 <= probe["since_ms"] == answered["since_ms"] <= 1000 * time.time()
    went_by = 60 - len(daemon.requests) + 3
    assert 2 <= probe["undecided"] < answered["undecided"] == went_by
    assert later, "the breaker closed again"
    assert set(later) == {None}


def test_the_flux_filter_reports_the_same(bench: FluxBench) -> None:
    bench.settings = dict(SETTINGS)
    with FakeDaemon(bench.socket, failing_first(2)) as daemon:
        for _ in range(10):
            bench.frob(asking())
        went_by = 10 - len(daemon.requests) + 2
        until = time.monotonic() + 30
        while len(daemon.requests) < 4 and time.monotonic() < until:
            asked = len(daemon.requests)
            bench.frob(asking())
            went_by += len(daemon.requests) == asked
            time.sleep(0.005)
    first, second, answered, next_one = [one.get("breaker") for one in daemon.requests[:4]]
    assert first is next_one is None
    assert second == {"undecided": 1, "since_ms": second["since_ms"]}
    assert answered == {"undecided": went_by, "since_ms": second["since_ms"], "opened": 1}


def line(breaker: Any = None) -> bytes:
    job = {
        "user": "alice",
        "uid": 1000,
        "kind": "batch",
        "queue": "auto",
        "comment": "berth:stream",
    }
    message = {"v": 1, "op": "decide", "scheduler": "slurm", "job": job}
    return json.dumps(message if breaker is None else {**message, "breaker": breaker}).encode()


def test_the_daemon_counts_a_streak_once_and_answers_as_without_it() -> None:
    service, _ = knowing_service()
    plain = json.loads(service.handle(line()))  # a filter of an earlier version
    reports = (
        {"undecided": 2, "since_ms": 1_000},
        {"undecided": 40.0, "since_ms": 1_000.0, "opened": 1},  # Lua's numbers
        {"undecided": 40, "since_ms": 1_000, "opened": 1},  # its answer came too late
        {"undecided": 3, "since_ms": 9_000},
    )
    for report in reports:
        reply = json.loads(service.handle(line(report)))
        assert reply["edits"] == plain["edits"]
    found = json.loads(service.handle(b'{"v":1,"op":"stats"}'))["breakers"]
    assert (found["slurm"]["openings"], found["slurm"]["undecided"]) == (1, 43)
    assert found["slurm"]["reported_s"] == pytest.approx(time.time(), abs=60)
    assert found["flux"] == {"openings": 0, "undecided": 0, "reported_s": None, "lasted_s": None}


@pytest.mark.parametrize(
    "report",
    [
        7, "x", [], {}, {"undecided": 3}, {"since_ms": 3}, {"undecided": 0, "since_ms": 3},
        {"undecided": -1, "since_ms": 3}, {"undecided": 1.5, "since_ms": 3},
        {"undecided": True, "since_ms": 3}, {"undecided": 3, "since_ms": -3},
        {"undecided": 3, "since_ms": 2**70}, {"undecided": {"a": 1}, "since_ms": 3},
        {"undecided": "3", "since_ms": 3},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_what_is_no_report_is_ignored_and_its_job_decided(report: Any) -> None:
    service, recorded = knowing_service()
    assert json.loads(service.handle(line(report)))["action"] == "edit"
    assert len(recorded) == 1
    assert service.breakers.summary(["slurm"])["slurm"]["undecided"] == 0


def test_counts_and_memory_are_bounded() -> None:
    assert streak_in({"undecided": 10**300, "since_ms": 5}) == Streak(MOST_SUBMISSIONS, 5, False)
    breakers = Breakers()
    for n in range(10_000):
        breakers.reported("slurm", Streak(1, n, opened=True), now_s=1.0)
    assert len(breakers._known) <= 256
    found = breakers.summary(["slurm"])["slurm"]
    assert found == {"openings": 10_000, "undecided": 10_000, "reported_s": 1.0, "lasted_s": 0.0}
