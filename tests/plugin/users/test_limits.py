"""The users' socket is bounded in connections, rate, size and time, for each user and for all."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from berth_daemon import raw, wait_until

from berth.pilot.errors import UsageError
from berth.plugin.daemon.listener import Listener
from berth.plugin.usernames import name_of
from berth.plugin.users.server import Gate, RequestLimits, UserServer
from berth.plugin.users.workloads import Peer


def test_one_user_has_few_connections_and_leaves_room_for_others() -> None:
    gate = Gate(RequestLimits(connections=3, connections_per_user=2))
    assert [gate.refusal(1), gate.refusal(1)] == [None, None]
    assert "2 connections already" in str(gate.refusal(1))
    assert gate.refusal(2) is None
    assert "too many users" in str(gate.refusal(3))
    gate.leave(1)
    assert gate.refusal(3) is None


def test_a_users_rate_is_limited_and_recovers() -> None:
    now = [0.0]
    gate = Gate(RequestLimits(requests_per_minute=60, burst=2), lambda: now[0])

    def come(uid: int) -> bool:
        admitted = gate.refusal(uid) is None
        if admitted:
            gate.leave(uid)
        return admitted

    assert [come(1), come(1), come(1)] == [True, True, False]
    assert come(2), "another user's rate is his own"
    now[0] = 1.0
    assert [come(1), come(1)] == [True, False]


def echo(peer: Peer, request: Mapping[str, Any]) -> Mapping[str, object]:
    if request.get("op") == "refused":
        raise UsageError("that is not so", hint="ask otherwise")
    if request.get("op") == "broken":
        raise RuntimeError("a bug")
    return {"uid": peer.uid}


@contextmanager
def serving(path: Path, limits: RequestLimits) -> Iterator[UserServer]:
    server = UserServer(Listener(path), echo, lambda uid: Peer(uid, name_of(uid)), limits)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield server
    server.stop()
    thread.join()
    assert not thread.is_alive()


def ask(path: Path, line: bytes) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(raw(path, line + b"\n"))
    return answer


def test_requests_are_answered_and_errors_told(tmp_path: Path) -> None:
    with serving(tmp_path / "s", RequestLimits()):
        assert ask(tmp_path / "s", b'{"v":1}') == {"v": 1, "uid": os.getuid()}
        refused = {"v": 1, "error": "that is not so", "hint": "ask otherwise"}
        assert ask(tmp_path / "s", b'{"v":1,"op":"refused"}') == refused
        assert "log" in ask(tmp_path / "s", b'{"v":1,"op":"broken"}')["error"]
        assert "JSON" in ask(tmp_path / "s", b"\xff\x00")["error"]
        assert "JSON" in ask(tmp_path / "s", b"[" * 100_000)["error"]
        assert "version" in ask(tmp_path / "s", b'{"v":9}')["error"]
        assert "version" in ask(tmp_path / "s", b"[]")["error"]


def test_a_request_is_bounded_in_size_and_time(tmp_path: Path) -> None:
    with serving(tmp_path / "s", RequestLimits(request_bytes=1_000, request_s=0.2)) as server:
        assert "at most 1000 bytes" in ask(tmp_path / "s", b"x" * 2_000)["error"]
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(10)
            peer.connect(str(tmp_path / "s"))
            peer.sendall(b'{"v":')
            assert peer.recv(100) == b""
        assert server.counts["timed-out"] == 1


def test_one_too_many_is_told_so(tmp_path: Path) -> None:
    with serving(tmp_path / "s", RequestLimits(connections_per_user=1)) as server:
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(str(tmp_path / "s"))
            wait_until(lambda: server.counts["accepted"] == 1)
            assert "1 connections already" in json.loads(raw(tmp_path / "s"))["error"]
        wait_until(lambda: "uid" in ask(tmp_path / "s", b'{"v":1}'))
