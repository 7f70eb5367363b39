"""Either filter against a daemon that fails or answers nonsense: the job goes on."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from fake_daemon import KEEP, FakeDaemon, Reply, move_to
from filter_bench import FilterBench, require_lua
from filter_ports import FilterPort, FluxPort, SlurmPort
from flux_bench import FluxBench

DEADLINE_S = 0.05
IMPATIENT = {"deadline_ms": DEADLINE_S * 1000, "breaker_first_pause_s": 30}


@pytest.fixture(params=["slurm", "flux"])
def port(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    bench: FluxBench,
    capfd: pytest.CaptureFixture[str],
) -> FilterPort:
    if request.param == "flux":
        return FluxPort(bench, capfd)
    require_lua()
    return SlurmPort(FilterBench(tmp_path))


def bind(path: Path, backlog: int = 8) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(backlog)
    return listener


def test_without_a_daemon_the_breaker_opens_once(port: FilterPort) -> None:
    port.settings = dict(IMPATIENT)
    submitted = port.submit(100)
    assert submitted.queue == "auto"
    assert submitted.log.count("no answer from") == 1


def test_a_mute_daemon_is_asked_only_until_the_breaker_opens(port: FilterPort) -> None:
    port.settings = dict(IMPATIENT)
    with bind(port.socket) as listener:
        submitted = port.submit(50)
        listener.setblocking(False)
        for _ in range(3):
            listener.accept()
        with pytest.raises(BlockingIOError):  # the breaker opens at the third
            listener.accept()
    assert submitted.queue == "auto"
    assert all(s > DEADLINE_S * 0.9 for s in submitted.seconds[:3])


def test_a_full_accept_queue_costs_no_more_than_the_deadline(port: FilterPort) -> None:
    port.settings = dict(IMPATIENT)
    with bind(port.socket, backlog=0):
        waiting = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(4)]
        for peer in waiting:
            peer.setblocking(False)
            peer.connect_ex(str(port.socket))
        submitted = port.submit(10)
        for peer in waiting:
            peer.close()
    assert submitted.queue == "auto"


def test_a_trickling_answer_is_cut_off_at_the_deadline(port: FilterPort) -> None:
    """Each byte comes in time; the whole does not. The limit is for the whole exchange."""
    port.settings = dict(IMPATIENT)
    with FakeDaemon(port.socket, lambda _: move_to("gpu")) as daemon:
        daemon.trickle_s = DEADLINE_S / 10
        submitted = port.submit()
    assert submitted.queue == "auto"
    assert submitted.seconds[0] > DEADLINE_S * 0.9


BAD_ANSWERS = {
    "nothing": b"",
    "an empty line": b"\n",
    "half a line": b'{"v":1,"action":',
    "no line end": b'{"v":1,"action":"edit","edits":{"queue":"gpu"}}',
    "not JSON": b"hello\n",
    "a list": b"[1,2]\n",
    "an empty list": b"[]\n",
    "a number": b"1\n",
    "null": b"null\n",
    "an empty object": b"{}\n",
    "no action": b'{"v":1}\n',
    "two lines": b'{"v":1,"action":"keep"}\n{"v":1,"action":"keep"}\n',
    "another version": b'{"v":2,"action":"edit","edits":{"queue":"gpu"}}\n',
    "version as text": b'{"v":"1","action":"edit","edits":{"queue":"gpu"}}\n',
    "version as a truth value": b'{"v":true,"action":"keep"}\n',
    "an unknown action": b'{"v":1,"action":"reject"}\n',
    "deep nesting": b"[" * 8000 + b"]" * 8000 + b"\n",
    "nesting without end": b"[" * 5000 + b"\n",
    "too long": b'{"v":1,"action":"keep","message":"' + b"x" * 20_000 + b'"}\n',
    "a long edit": b'{"v":1,"action":"edit","edits":{"queue":"gpu"},"p":"'
    + b"x" * 17_000
    + b'"}\n',
    "endless": b"x" * 5_000_000,
    "binary": bytes(range(256)) + b"\n",
    "not UTF-8": b"\xff\xfe\n",
}


@pytest.mark.parametrize("answer", BAD_ANSWERS)
def test_an_invalid_answer_changes_nothing_and_counts_as_a_failure(
    port: FilterPort, answer: str
) -> None:
    port.settings = {"deadline_ms": 200, "breaker_first_pause_s": 30}
    with FakeDaemon(port.socket, lambda _: BAD_ANSWERS[answer] or None) as daemon:
        submitted = port.submit(6)
    assert submitted.queue == "auto"
    assert len(daemon.requests) == 3, "the breaker opens at the third"


@pytest.mark.parametrize(
    "reply",
    [
        {"v": 1, "action": "edit"},
        {"v": 1, "action": "edit", "edits": []},
        {"v": 1, "action": "edit", "edits": ["gpu"]},
        {"v": 1, "action": "edit", "edits": None},
        {"v": 1, "action": "edit", "edits": {}},
        {"v": 1, "action": "keep", "edits": {"queue": "gpu"}},
        {"v": 1, "action": "keep", "stamp": 3, "message": ["x"], "new": {"key": 1}},
        move_to("secret"),
    ],
    ids=json.dumps,
)
def test_an_answer_without_a_usable_edit_keeps_the_job_and_is_no_failure(
    port: FilterPort, reply: Any
) -> None:
    port.settings = {"breaker_failures": 1, "breaker_first_pause_s": 30, "deadline_ms": 1000}
    with FakeDaemon(port.socket, lambda _: reply) as daemon:
        assert port.submit(5).queue == "auto"
    assert len(daemon.requests) == 5


def test_after_an_answer_the_breaker_is_closed_again(port: FilterPort) -> None:
    port.settings = {"breaker_failures": 1, "breaker_first_pause_s": 0.05}
    replies = iter([b"no\n", *[KEEP] * 1000])
    with FakeDaemon(port.socket, lambda _: next(replies)) as daemon:
        submitted = port.submit(30, pause_s=0.01)
    assert len(daemon.requests) > 15
    assert "answers again" in submitted.log


@pytest.mark.parametrize("kind", ["file", "folder", "link to nothing", "very long path"])
def test_something_else_in_the_sockets_place_is_no_daemon(port: FilterPort, kind: str) -> None:
    if kind == "file":
        port.socket.write_text("not a socket")
    elif kind == "folder":
        port.socket.mkdir()
    elif kind == "link to nothing":
        port.socket.symlink_to(port.socket.with_name("nowhere"))
    else:
        port.settings = {"socket": "/tmp/" + "x" * 300}
    assert port.submit(5).queue == "auto"


def test_a_connection_is_kept_from_one_job_to_the_next(port: FilterPort) -> None:
    with FakeDaemon(port.socket, lambda _: move_to("gpu")) as daemon:
        daemon.close_each = False
        assert port.submit(20).queue == "gpu"
        assert (len(daemon.requests), daemon.connections) == (20, 1)


def test_a_connection_closed_by_the_daemon_is_made_again_without_a_failure(
    port: FilterPort,
) -> None:
    """A restart between two jobs must cost neither of them its placement."""
    port.settings = {"breaker_failures": 1, "breaker_first_pause_s": 30}
    with FakeDaemon(port.socket, lambda _: move_to("gpu")) as daemon:
        submitted = port.submit(50, pause_s=0.001)
    assert submitted.queue == "gpu"
    assert min(len(daemon.requests), daemon.connections) >= 50
    assert "no answer" not in submitted.log


def test_an_answer_that_comes_too_late_is_never_taken_for_the_next_one(port: FilterPort) -> None:
    """The first reply arrives after its deadline; the second job must not get it."""
    port.settings = {"deadline_ms": 30, "breaker_failures": 10}

    def answer(_: dict[str, object]) -> Reply | bytes:
        first = len(daemon.requests) == 1
        if first:
            time.sleep(0.06)
        return move_to("mig") if first else KEEP

    with FakeDaemon(port.socket, answer) as daemon:
        daemon.close_each = False
        assert port.submit(4, pause_s=0.05).queue == "auto"
    assert len(daemon.requests) == 4


def test_unasked_bytes_on_the_kept_connection_are_not_an_answer(port: FilterPort) -> None:
    """Two replies to the first request; the second one arrives before the second job."""
    port.settings = {"breaker_failures": 1}

    def answer(_: dict[str, object]) -> Reply:
        if len(daemon.requests) == 1:
            daemon.afterwards = json.dumps(move_to("mig")).encode() + b"\n"
        return KEEP

    with FakeDaemon(port.socket, answer) as daemon:
        daemon.close_each = False
        assert port.submit(3, pause_s=0.05).queue == "auto"


def test_the_kill_switch_stops_all_questions_at_once_and_ends_at_once(port: FilterPort) -> None:
    with FakeDaemon(port.socket, lambda _: move_to("gpu")) as daemon:
        port.kill_switch.touch()
        assert port.submit(2).queue == "auto"
        assert daemon.requests == []
        port.kill_switch.unlink()
        assert port.submit().queue == "gpu"


@pytest.mark.parametrize(
    "edits",
    [
        {"queue": "nowhere"}, {"queue": "auto"}, {"queue": "anonymous"}, {"queue": ""},
        {"queue": "gpu\n"}, {"queue": 3}, {"queue": None}, {"queue": ["gpu"]}, {"nodes": 2},
        {"queue": "gpu", "nodes": 0}, {"queue": "gpu", "nodes": -1}, {"queue": "gpu", "nodes": 1.5},
        {"queue": "gpu", "nodes": True}, {"queue": "gpu", "tasks": 10**9},
        {"queue": "gpu", "tasks": "4"}, {"queue": "gpu", "tasks": [1]},
        {"queue": "gpu", "tasks": None}, {"queue": "gpu", "cpus_per_task": "8"},
        {"queue": "gpu", "memory_mib_per_node": -1}, {"queue": "gpu", "time_limit_min": 0},
        {"queue": "gpu", "time_limit_min": 10**9}, {"queue": "gpu", "gres": "gpu:1 --x"},
        {"queue": "gpu", "features": ""}, {"queue": "gpu", "features": "a'b"},
        {"queue": "gpu", "script": "#!/bin/sh"}, {"queue": "gpu", "uid": 0},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_of_edits_with_an_impossible_one_none_is_made(
    port: FilterPort, edits: dict[str, Any]
) -> None:
    reply = {"v": 1, "action": "edit", "edits": edits, "stamp": "berth/1 id=x"}
    with FakeDaemon(port.socket, lambda _: reply):
        submitted = port.submit()
    assert submitted.queue == "auto"
    assert "was not carried out" in submitted.log
