"""The answering thread against slow, greedy, rude and dying peers."""

from __future__ import annotations

import os
import resource
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from berth_daemon import raw, wait_until

from berth.pilot.errors import BerthError
from berth.plugin.daemon import server as server_module
from berth.plugin.daemon.listener import Listener
from berth.plugin.daemon.protocol import MAX_REQUEST_BYTES
from berth.plugin.daemon.server import End, SubmitServer

LONG_REPLY = b"y" * 15_000 + b"\n"


def echo(line: bytes) -> bytes:
    if line == b"long":
        return LONG_REPLY
    return b"<" + line + b">\n"


@dataclass
class Running:
    """A Server in a thread."""

    server: SubmitServer
    path: Path
    thread: threading.Thread
    ended: list[End]

    def connect(self) -> socket.socket:
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.settimeout(10)
        peer.connect(str(self.path))
        return peer

    def ask(self, line: bytes = b"hello") -> bytes:
        with self.connect() as peer:
            peer.sendall(line + b"\n")
            return read_line(peer)


def read_line(peer: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"\n"):
        part = peer.recv(65536)
        if not part:
            break
        received += part
    return received


def run(path: Path, **options: Any) -> Running:
    server = SubmitServer(Listener(path), echo, options.pop("uids", {os.geteuid()}), **options)
    ended: list[End] = []
    thread = threading.Thread(target=lambda: ended.append(server.run()), daemon=True)
    thread.start()
    return Running(server, path, thread, ended)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


@pytest.fixture
def running(path: Path) -> Iterator[Running]:
    made = run(path)
    yield made
    if made.thread.is_alive():
        made.server.stop()
        made.thread.join()
    assert not made.thread.is_alive()


def test_one_line_one_reply(running: Running) -> None:
    assert running.ask() == b"<hello>\n"
    assert running.ask(b"") == b"<>\n"


def test_stopping_one_that_has_ended_does_nothing(running: Running) -> None:
    running.server.stop()
    running.thread.join()
    running.server.stop()
    assert running.ended == [End.STOPPED]


def test_several_lines_in_turn_on_a_kept_connection(running: Running) -> None:
    with running.connect() as peer:
        for n in range(100):
            peer.sendall(b"%d\n" % n)
            assert read_line(peer) == b"<%d>\n" % n


def test_lines_sent_ahead_are_answered_in_order(running: Running) -> None:
    lines = [b"%d" % n for n in range(500)]
    assert raw(running.path, b"\n".join(lines) + b"\n") == b"".join(b"<%s>\n" % x for x in lines)


def test_half_a_line_gets_nothing_and_holds_nobody_up(running: Running) -> None:
    assert raw(running.path, b"half") == b""
    with running.connect() as slow:
        slow.sendall(b"hal")
        assert running.ask() == b"<hello>\n"
        slow.sendall(b"f")
        slow.sendall(b"\n")
        assert read_line(slow) == b"<half>\n"


def test_a_line_of_the_longest_length_is_answered_and_a_longer_one_refused(
    running: Running,
) -> None:
    with running.connect() as peer:
        peer.sendall(b"x" * MAX_REQUEST_BYTES + b"\n")
        assert len(read_line(peer)) == MAX_REQUEST_BYTES + 3
    for length in (MAX_REQUEST_BYTES + 1, 5 * MAX_REQUEST_BYTES):
        reply = raw(running.path, b"x" * length)
        assert reply == b"" or b'"bad-request"' in reply
    with running.connect() as peer:
        peer.sendall(b"x" * (MAX_REQUEST_BYTES + 1))
        assert b'"bad-request"' in read_line(peer)
        assert peer.recv(1) == b""
    assert running.ask() == b"<hello>\n"


def test_a_begun_line_is_not_waited_for_forever(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "HALF_LINE_S", 0.2)
    with running.connect() as slow, running.connect() as idle:
        slow.sendall(b"hal")
        assert slow.recv(1) == b""
        idle.sendall(b"still here\n")
        assert read_line(idle) == b"<still here>\n"
    assert running.server.counts["timed-out"] == 1


def test_an_idle_connection_is_closed_in_the_end(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "IDLE_S", 0.2)
    with running.connect() as idle:
        assert idle.recv(1) == b""


def test_a_peer_that_does_not_read_stops_only_itself(running: Running) -> None:
    with running.connect() as greedy:
        greedy.settimeout(0.5)
        with pytest.raises(TimeoutError):
            greedy.sendall(b"long\n" * 10_000_000)
        assert running.ask() == b"<hello>\n"
        greedy.settimeout(10)
        received = b""
        while len(received) < 20 * len(LONG_REPLY):
            received += greedy.recv(65536)
        assert received.startswith(LONG_REPLY * 20)


def test_a_peer_that_dies_at_any_point_costs_nothing(running: Running) -> None:
    for sent in (b"", b"ha", b"hello\n", b"long\n" * 50):
        for _ in range(20):
            peer = running.connect()
            peer.sendall(sent)
            peer.close()
    assert running.ask() == b"<hello>\n"
    wait_until(lambda: not running.server._connections, what="closed connections to be gone")


def test_a_wrong_uid_is_closed_without_a_word(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    running = run(path, uids={os.geteuid() + 1})
    assert raw(path, b"hello\n") == b""
    assert raw(path, b"hello\n") == b""
    running.server.uids = frozenset({os.geteuid()})
    assert running.ask() == b"<hello>\n"
    running.server.stop()
    running.thread.join()
    assert running.server.counts["wrong-uid"] == 2
    assert caplog.text.count("is not a scheduler user") == 1


def test_beyond_the_most_connections_the_idlest_goes(path: Path) -> None:
    running = run(path, max_connections=10)
    peers = [running.connect() for _ in range(10)]
    for peer in peers[1:]:
        peer.sendall(b"hello\n")
        assert read_line(peer) == b"<hello>\n"
    assert running.ask() == b"<hello>\n"
    assert peers[0].recv(1) == b""
    for peer in peers:
        peer.close()
    running.server.stop()
    running.thread.join()


def test_hundreds_of_idle_connections_hold_nobody_up(running: Running) -> None:
    idle = [running.connect() for _ in range(400)]
    assert running.ask() == b"<hello>\n"
    for peer in idle:
        peer.close()


def test_without_file_descriptors_the_idlest_goes_and_answers_go_on(running: Running) -> None:
    assert running.ask() == b"<hello>\n"
    idle = running.connect()
    wait_until(lambda: running.server._connections)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    clients = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(2)]
    spare = [os.dup(0) for _ in range(3)]
    highest = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
    for fd in spare:
        os.close(fd)
    blockers = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    try:
        while True:
            try:
                blockers.append(os.dup(0))
            except OSError:
                break
        client = clients[0]
        client.settimeout(10)
        client.connect(str(running.path))
        client.sendall(b"hello\n")
        assert read_line(client) == b"<hello>\n"
        assert idle.recv(1) == b""
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in blockers:
            os.close(fd)
        for client in clients:
            client.close()
        idle.close()
    assert running.ask() == b"<hello>\n"


def test_told_to_stop_it_answers_what_it_has_received(path: Path) -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow(line: bytes) -> bytes:
        started.set()
        go_on.wait()
        return echo(line)

    server = SubmitServer(Listener(path), slow, {os.geteuid()})
    ended: list[End] = []
    thread = threading.Thread(target=lambda: ended.append(server.run()))
    thread.start()
    running = Running(server, path, thread, ended)
    with running.connect() as first, running.connect() as second, running.connect() as kept:
        first.sendall(b"1\n")
        assert started.wait()
        second.sendall(b"2\n")
        server.stop()
        go_on.set()
        assert read_line(first) == b"<1>\n"
        assert read_line(second) == b"<2>\n"
        assert kept.recv(1) == b""
    thread.join()
    assert ended == [End.STOPPED]
    assert not path.exists()


def test_a_socket_file_that_is_removed_is_made_again(running: Running) -> None:
    kept = running.connect()
    running.path.unlink()
    wait_until(running.path.exists, what="the socket to be made again")
    assert running.ask() == b"<hello>\n"
    kept.sendall(b"still\n")
    assert read_line(kept) == b"<still>\n"
    kept.close()


def test_a_socket_file_that_is_replaced_ends_the_server_and_is_left(path: Path) -> None:
    running = run(path)
    running.ask()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(path.with_name("other")))
        other.listen()
        path.with_name("other").replace(path)
        running.thread.join()
        assert running.ended == [End.SOCKET_LOST]
        assert path.exists()


def test_a_folder_that_is_gone_ends_the_server(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    running = run(folder / "s")
    running.ask()
    folder.rename(tmp_path / "moved")
    folder.touch()  # no folder can be made there
    running.thread.join()
    assert running.ended == [End.SOCKET_LOST]


def test_a_stale_socket_is_replaced(path: Path) -> None:
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stale.bind(str(path))
    stale.close()
    running = run(path)
    assert running.ask() == b"<hello>\n"
    running.server.stop()
    running.thread.join()


def test_a_live_owner_is_not_pushed_aside(running: Running) -> None:
    with pytest.raises(BerthError, match="another berth serve owns"):
        Listener(running.path)
    running.path.with_name("s.lock").unlink()  # even then its socket answers
    with pytest.raises(BerthError, match="something else listens"):
        Listener(running.path)
    assert running.ask() == b"<hello>\n"


def test_a_file_that_is_no_socket_is_left(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(BerthError, match="is not a socket"):
        Listener(path)
    assert path.read_text() == "precious"


def test_a_path_too_long_or_not_writable_is_said(tmp_path: Path) -> None:
    with pytest.raises(BerthError, match="too long"):
        Listener(tmp_path / ("x" * 120))
    (tmp_path / "file").touch()
    with pytest.raises(BerthError, match="cannot listen there"):
        Listener(tmp_path / "file" / "s")


def test_the_socket_has_its_mode_from_the_first_moment(path: Path) -> None:
    listener = Listener(path, mode=0o660)
    assert path.stat().st_mode & 0o777 == 0o660
    listener.close()
    assert not path.exists()
