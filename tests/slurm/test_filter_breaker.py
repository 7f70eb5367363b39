"""The filter against a daemon that fails, under a plain Lua: deadline, breaker, recovery."""

from __future__ import annotations

import json
import socket
import statistics
import time
from pathlib import Path

import pytest
from fake_daemon import KEEP, FakeDaemon, Reply, move_to
from filter_bench import FilterBench

AUTO = {"partition": "auto"}
DEADLINE_S = 0.03
SLACK_S = 2.0  # what a busy machine may add to one wait


@pytest.fixture
def impatient(bench: FilterBench) -> FilterBench:
    bench.settings = {"deadline_ms": DEADLINE_S * 1000, "breaker_first_pause_s": 30}
    return bench


def bind(path: Path, backlog: int = 8) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(backlog)
    return listener


def test_without_a_daemon_the_breaker_opens_and_then_costs_microseconds(
    impatient: FilterBench,
) -> None:
    outcome = impatient.submit(AUTO, submissions=100)
    assert outcome.codes == [0] * 100
    assert outcome.job["partition"] == "auto"
    assert statistics.median(outcome.seconds[3:]) < 1e-4
    assert sum("no answer from" in line for line in outcome.log) == 1


def test_a_mute_daemon_costs_its_deadline_only_until_the_breaker_opens(
    impatient: FilterBench,
) -> None:
    with bind(impatient.socket):
        outcome = impatient.submit(AUTO, submissions=100)
    assert all(DEADLINE_S * 0.9 < s < DEADLINE_S + SLACK_S for s in outcome.seconds[:3])
    assert statistics.median(outcome.seconds[3:]) < 1e-4


def test_a_full_accept_queue_costs_no_more_than_the_deadline(impatient: FilterBench) -> None:
    with bind(impatient.socket, backlog=0):
        waiting = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(str(impatient.socket))
        outcome = impatient.submit(AUTO, submissions=10)
        for one in waiting:
            one.close()
    assert max(outcome.seconds) < DEADLINE_S + SLACK_S
    assert outcome.codes == [0] * 10


def test_a_trickling_answer_is_cut_off_at_the_deadline(impatient: FilterBench) -> None:
    """Each byte comes in time; the whole does not. The limit is for the whole exchange."""
    with FakeDaemon(impatient.socket, lambda _: move_to("gpu")) as daemon:
        daemon.trickle_s = DEADLINE_S / 10
        outcome = impatient.submit(AUTO)
    assert outcome.job["partition"] == "auto"
    assert DEADLINE_S * 0.9 < outcome.seconds[0] < DEADLINE_S + SLACK_S


def test_one_probe_after_each_pause_and_the_pauses_grow(bench: FilterBench) -> None:
    bench.settings = {
        "breaker_failures": 2,
        "breaker_first_pause_s": 0.05,
        "breaker_longest_pause_s": 10,
    }
    with FakeDaemon(bench.socket, lambda _: b"no\n") as daemon:
        outcome = bench.submit(AUTO, submissions=80, pause_s=0.01)
    # 2 failures open it; probes follow after 50, 150, 350 and 750 ms of at least 800, on a busy
    # machine of more: after 1550, 3150, ... ms.
    assert 4 <= len(daemon.requests) <= 10
    assert outcome.codes == [0] * 80


def test_after_an_answer_the_breaker_is_closed_again(bench: FilterBench) -> None:
    bench.settings = {"breaker_failures": 1, "breaker_first_pause_s": 0.05}
    replies = iter([b"no\n", *[KEEP] * 1000])
    with FakeDaemon(bench.socket, lambda _: next(replies)) as daemon:
        outcome = bench.submit({}, submissions=30, pause_s=0.01)
    assert len(daemon.requests) > 15
    assert any("answers again" in line for line in outcome.log)


def test_a_refused_answer_is_no_failure_of_the_daemon(bench: FilterBench) -> None:
    bench.settings = {"breaker_failures": 1, "breaker_first_pause_s": 30}
    with FakeDaemon(bench.socket, lambda _: move_to("secret")) as daemon:
        bench.submit({}, submissions=5)
    assert len(daemon.requests) == 5


def test_a_clock_set_back_neither_hangs_a_submission_nor_keeps_the_breaker_open(
    bench: FilterBench,
) -> None:
    bench.settings = {"breaker_failures": 1, "breaker_first_pause_s": 30}
    prelude = (
        "local s = require 'socket'; local real, calls = s.gettime, 0; "
        "s.gettime = function() calls = calls + 1; "
        "return calls > 15 and real() - 86400 or real() end"
    )
    replies = iter([b"no\n", *[move_to("gpu")] * 1000])
    with FakeDaemon(bench.socket, lambda _: next(replies)):
        outcome = bench.submit(AUTO, submissions=10, prelude=prelude)
    assert outcome.job["partition"] == "gpu"
    assert outcome.codes == [0] * 10


@pytest.mark.parametrize("kind", ["file", "folder", "link to nothing", "very long path"])
def test_something_else_in_the_sockets_place_is_no_daemon(bench: FilterBench, kind: str) -> None:
    path = bench.socket
    if kind == "file":
        path.write_text("not a socket")
    elif kind == "folder":
        path.mkdir()
    elif kind == "link to nothing":
        path.symlink_to(path.with_name("nowhere"))
    else:
        bench.settings = {"socket": "/tmp/" + "x" * 200}
    outcome = bench.submit(AUTO, submissions=5)
    assert outcome.codes == [0] * 5
    assert outcome.job["partition"] == "auto"


def test_the_user_who_asked_for_a_place_hears_that_there_is_none_now_where_all_is_told(
    bench: FilterBench,
) -> None:
    assert bench.submit(AUTO).user == []
    bench.settings = {"messages": "all"}
    assert bench.submit(AUTO).user == [
        "berth: note: no placement now, the job stays in partition auto"
    ]
    assert bench.submit({}).user == []


def test_a_connection_is_kept_from_one_job_to_the_next(bench: FilterBench) -> None:
    with FakeDaemon(bench.socket, lambda _: move_to("gpu")) as daemon:
        daemon.close_each = False
        outcome = bench.submit({}, submissions=1)
        assert outcome.job["partition"] == "gpu"
        bench.submit({"comment": "many"}, submissions=20)
        assert len(daemon.requests) == 21
        assert daemon.connections == 2


def test_a_connection_closed_by_the_daemon_is_made_again_without_a_failure(
    bench: FilterBench,
) -> None:
    """A restart between two jobs must cost neither of them its placement."""
    bench.settings = {"breaker_failures": 1, "breaker_first_pause_s": 30}
    with FakeDaemon(bench.socket, lambda _: KEEP) as daemon:
        outcome = bench.submit({}, submissions=50, pause_s=0.001)
    assert len(daemon.requests) >= 50
    assert daemon.connections >= 50
    assert not any("no answer" in line for line in outcome.log)


def test_an_answer_that_comes_too_late_is_never_taken_for_the_next_one(bench: FilterBench) -> None:
    """The first reply arrives after its deadline; the second job must not get it."""
    bench.settings = {"deadline_ms": 30, "breaker_failures": 10}

    def answer(request: dict[str, object]) -> Reply | bytes:
        first = len(daemon.requests) == 1
        if first:
            time.sleep(0.06)
        return move_to("mig") if first else KEEP

    with FakeDaemon(bench.socket, answer) as daemon:
        daemon.close_each = False
        outcome = bench.submit({}, submissions=4, pause_s=0.05)
    assert "partition" not in outcome.job
    assert len(daemon.requests) == 4


def test_unasked_bytes_on_the_kept_connection_are_not_an_answer(bench: FilterBench) -> None:
    """Two replies to the first request; the second one arrives before the second job."""
    bench.settings = {"breaker_failures": 1}

    def answer(_: dict[str, object]) -> Reply | bytes | None:
        if len(daemon.requests) > 1:
            return KEEP
        daemon.afterwards = json.dumps(move_to("mig")).encode() + b"\n"
        return KEEP

    with FakeDaemon(bench.socket, answer) as daemon:
        daemon.close_each = False
        outcome = bench.submit({}, submissions=3, pause_s=0.05)
    assert "partition" not in outcome.job
