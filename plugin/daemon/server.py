"""The answering thread: one epoll loop over all connections, which never blocks on any of them.

Each connection has at most one unsent reply: the server does not read from a peer that does not
read its reply. A slow, silent or vanished peer delays only its own connection.
"""

from __future__ import annotations

import errno
import logging
import select
import socket
from collections.abc import Callable, Collection
from contextlib import suppress
from enum import Enum

from berth.pilot.errors import BerthError
from berth.plugin.daemon import protocol
from berth.plugin.daemon.listener import Listener, SocketState
from berth.plugin.daemon.protocol import MAX_REQUEST_BYTES
from berth.plugin.host import HOST, Host
from berth.plugin.usernames import peer_uid
from berth.policies.codes import Code

log = logging.getLogger("berth.serve.server")

Handle = Callable[[bytes], bytes]

MAX_CONNECTIONS = 512
HALF_LINE_S = 5.0
"""Seconds within which a partly received request must be complete."""
IDLE_S = 300.0
"""Seconds after which a connection without any request is closed."""
GRACE_S = 1.0
"""Seconds that requests in progress get to finish after ``stop``."""
TICK_S = 0.5

_DONTWAIT = socket.MSG_DONTWAIT
_NO_WAIT_NO_SIGNAL = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
_ACCEPTS_A_TURN = 32
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_READABLE = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR
_TOO_LONG = protocol.reply(
    "keep", code=Code.BAD_REQUEST, problem=f"longer than {MAX_REQUEST_BYTES} bytes"
)


class End(Enum):
    """The reason why the daemon's serving loop ended."""

    STOPPED = "stopped"
    SOCKET_LOST = "socket-lost"


class _Connection:
    __slots__ = ("blocked", "buffer", "last_s", "out", "queued", "served", "socket")

    def __init__(self, peer: socket.socket, now_s: float) -> None:
        self.socket = peer
        self.buffer = b""
        self.out = b""
        self.blocked = False
        """Whether the socket's send buffer is full: then polled for writing only."""
        self.queued = False
        """Whether the buffer holds another complete line: nothing more is read until it is
        answered.
        """
        self.served = False
        self.last_s = now_s


class SubmitServer:
    """Answers peers whose uid is in ``uids`` by calling ``handle`` on each line, until ``stop``.

    ``tick`` is called every half second.
    """

    def __init__(
        self,
        listener: Listener,
        handle: Handle,
        uids: Collection[int],
        *,
        max_connections: int = MAX_CONNECTIONS,
        tick: Callable[[], None] = lambda: None,
        host: Host = HOST,
    ) -> None:
        self._clock, self._network = host.clock, host.network
        self.uids = frozenset(uids)
        self.counts = {"accepted": 0, "wrong-uid": 0, "evicted": 0, "timed-out": 0}
        self._listener = listener
        self._handle = handle
        self._max_connections = max_connections
        self._tick = tick
        self._connections: dict[int, _Connection] = {}
        self._pipelined: list[_Connection] = []
        self._space = bytearray(MAX_REQUEST_BYTES + 1)
        self._poll = host.network.poll()
        self._spare = self._network.spare()
        self._waker, self._woken = host.network.pair()
        self._waker.setblocking(False)
        self._stopping_s: float | None = None
        self._wrong_uids_logged: set[int] = set()

    def stop(self) -> None:
        """Finish requests in progress, then end. May be called from a signal handler or any
        thread.
        """
        if self._stopping_s is None:
            self._stopping_s = self._clock.monotonic() + GRACE_S
        with suppress(OSError):  # pipe full: the loop wakes; closed: it has ended
            self._waker.send(b"s")

    def run(self) -> End:
        """Serve until ``stop`` or until the socket is lost; then close everything and return the
        reason.
        """
        self._poll.register(self._listener.fileno(), select.EPOLLIN)
        self._poll.register(self._woken.fileno(), select.EPOLLIN)
        try:
            return self._loop()
        finally:
            for connection in list(self._connections.values()):
                self._close(connection)
            self._listener.close()
            self._poll.close()
            self._waker.close()
            self._woken.close()
            self._network.give_up(self._spare)

    def _loop(self) -> End:
        next_tick_s = self._clock.monotonic() + TICK_S
        while True:
            timeout = 0 if self._pipelined else max(0.0, next_tick_s - self._clock.monotonic())
            events = self._poll.poll(timeout, 64)
            listening = self._listener.fileno()
            for fd, mask in events:
                connection = self._connections.get(fd)
                if connection is not None:
                    self._serve(connection, mask)
                elif fd == listening:
                    self._accept()
                elif fd == self._woken.fileno():
                    self._woken.recv(4096)
            if self._pipelined:
                waiting, self._pipelined = self._pipelined, []
                for connection in waiting:
                    if self._connections.get(connection.socket.fileno()) is connection:
                        self._answer_next(connection)
            now_s = self._clock.monotonic()
            if now_s >= next_tick_s:
                next_tick_s = now_s + TICK_S
                self._tick()
                self._sweep(now_s)
                if self._stopping_s is None and not self._still_ours():
                    return End.SOCKET_LOST
            if self._stopping_s is not None and self._wound_up(now_s):
                return End.STOPPED

    # Opening and closing connections

    def _accept(self) -> None:
        for turn in range(_ACCEPTS_A_TURN):
            try:
                peer, _address = self._listener.socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # Without a free descriptor, accept fails whether or not a peer is waiting: only on
                # the first turn is it certain that one is.
                if turn == 0 and error.errno in _EXHAUSTED:
                    self._make_room()
                return
            uid = peer_uid(peer)
            if uid not in self.uids:
                peer.close()
                self._refused(uid)
                continue
            if len(self._connections) >= self._max_connections:
                self._evict()
            connection = _Connection(peer, self._clock.monotonic())
            fd = peer.fileno()
            self._connections[fd] = connection
            self._poll.register(fd, select.EPOLLIN)
            self.counts["accepted"] += 1
            self._read(connection)

    def _refused(self, uid: int) -> None:
        self.counts["wrong-uid"] += 1
        if uid not in self._wrong_uids_logged and len(self._wrong_uids_logged) < 100:
            self._wrong_uids_logged.add(uid)
            log.warning("uid %d is not a scheduler user of the site file: not answered", uid)

    def _make_room(self) -> None:
        """Close the connection that is idle for longest, or refuse the waiting peer if none is
        open.
        """
        if self._connections:
            self._evict()
            return
        self._network.give_up(self._spare)
        with suppress(OSError):
            self._listener.socket.accept()[0].close()
        self._spare = self._network.spare()

    def _evict(self) -> None:
        self.counts["evicted"] += 1
        self._close(min(self._connections.values(), key=lambda c: c.last_s))

    def _close(self, connection: _Connection) -> None:
        # Closing a socket's last descriptor also removes it from the epoll set.
        self._connections.pop(connection.socket.fileno(), None)
        connection.socket.close()

    def _sweep(self, now_s: float) -> None:
        for connection in list(self._connections.values()):
            patience = HALF_LINE_S if connection.buffer or connection.out else IDLE_S
            if now_s - connection.last_s > patience:
                self.counts["timed-out"] += 1
                self._close(connection)

    # Requests and replies

    def _serve(self, connection: _Connection, mask: int) -> None:
        if connection.out:
            self._write(connection)
        elif not connection.queued and mask & _READABLE:
            self._read(connection)

    def _read(self, connection: _Connection) -> None:
        try:
            count = connection.socket.recv_into(self._space, 0, _DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if count == 0:
            self._close(connection)
            return
        fresh = bytes(memoryview(self._space)[:count])
        if connection.buffer:
            connection.buffer += fresh
        else:
            connection.buffer = fresh
            connection.last_s = self._clock.monotonic()
        self._answer_next(connection)

    def _answer_next(self, connection: _Connection) -> None:
        """Answer the first complete line of the connection's buffer, if any; keep the rest for
        later.
        """
        end = connection.buffer.find(b"\n")
        if end < 0:
            if len(connection.buffer) > MAX_REQUEST_BYTES:
                self._refuse_long(connection)
            return
        line, connection.buffer = connection.buffer[:end], connection.buffer[end + 1 :]
        if len(line) > MAX_REQUEST_BYTES:
            self._refuse_long(connection)
            return
        connection.out = self._handle(line)
        connection.last_s = self._clock.monotonic()
        connection.served = True
        self._write(connection)

    def _refuse_long(self, connection: _Connection) -> None:
        with suppress(OSError):
            connection.socket.send(_TOO_LONG, _NO_WAIT_NO_SIGNAL)
        self._close(connection)

    def _write(self, connection: _Connection) -> None:
        try:
            sent = connection.socket.send(connection.out, _NO_WAIT_NO_SIGNAL)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(connection)
            return
        if sent < len(connection.out):
            connection.out = connection.out[sent:]
            if not connection.blocked:
                connection.blocked = True
                self._poll.modify(connection.socket.fileno(), select.EPOLLOUT)
            return
        connection.out = b""
        if connection.blocked:
            connection.blocked = False
            self._poll.modify(connection.socket.fileno(), select.EPOLLIN)
        connection.queued = b"\n" in connection.buffer
        if connection.queued:
            self._pipelined.append(connection)

    # Ending

    def _still_ours(self) -> bool:
        standing = self._listener.standing()
        if standing is SocketState.OURS:
            return True
        if standing is SocketState.REPLACED:
            log.error("%s now is somebody else's: giving up", self._listener.path)
            return False
        try:
            old = self._listener.renew()
        except BerthError as error:
            log.error("%s; %s", error.message, error.hint)
            return False
        self._poll.register(self._listener.fileno(), select.EPOLLIN)
        old.close()
        log.warning("%s had been removed: made again", self._listener.path)
        return True

    def _wound_up(self, now_s: float) -> bool:
        """Return whether, after ``stop``, all requests are answered or the grace period is over."""
        assert self._stopping_s is not None  # noqa: S101
        self._accept()
        for connection in list(self._connections.values()):
            if connection.served and not connection.buffer and not connection.out:
                self._read(connection)  # requests that arrived before ``stop`` are answered
                if not connection.buffer and not connection.out:
                    self._close(connection)
        return not self._connections or now_s >= self._stopping_s
