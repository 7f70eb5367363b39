"""The users' socket: one request and one reply per connection.

Each admitted connection has a thread of its own, so a slow user delays no other user. ``Gate``
limits the connections and requests of each user and of all users together; a connection beyond the
limits gets an error message and is closed.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from berth.pilot.errors import BerthError, StoreError, UsageError
from berth.plugin.daemon.listener import Listener, SocketState
from berth.plugin.usernames import peer_uid
from berth.plugin.users.workloads import Peer

_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of what users may send to the daemon's socket."""

    connections: int = 32
    """Maximum number of connections of all users together."""
    connections_per_user: int = 4
    requests_per_minute: float = 120.0
    """Mean rate of one user's requests."""
    burst: int = 60
    """Number of requests that one user may send at once."""
    request_bytes: int = 8 * 1024 * 1024
    request_s: float = 10.0
    """Seconds within which a request must be complete, and its reply read."""


class Gate:
    """Admits connections by uid within the limits; ``leave`` ends an admission. Thread-safe."""

    def __init__(self, limits: RequestLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._open: Counter[int] = Counter()
        self._tokens: dict[int, tuple[float, float]] = {}
        """For each user, the requests still allowed and the time of that count."""

    def refusal(self, uid: int) -> str | None:
        """Return why a connection is refused, in one sentence; None: it is admitted, and ``leave``
        must be called later."""
        with self._lock:
            if self._open[uid] >= self._limits.connections_per_user:
                most = self._limits.connections_per_user
                return f"you have {most} connections already; close one"
            if self._open.total() >= self._limits.connections:
                return "too many users are connected; try again in some seconds"
            if not self._takes_token(uid):
                rate = self._limits.requests_per_minute
                return f"more than {rate:g} requests a minute; try again in some seconds"
            self._open[uid] += 1
            return None

    def leave(self, uid: int) -> None:
        """End the admission of a closed connection."""
        with self._lock:
            self._open[uid] -= 1
            if self._open[uid] <= 0:
                del self._open[uid]

    def _takes_token(self, uid: int) -> bool:
        now_s = self._clock()
        left, at_s = self._tokens.get(uid, (float(self._limits.burst), now_s))
        left = min(
            self._limits.burst, left + (now_s - at_s) * self._limits.requests_per_minute / 60
        )
        if len(self._tokens) >= _REMEMBERED:
            self._tokens.clear()
        self._tokens[uid] = (left - 1 if left >= 1 else left, now_s)
        return left >= 1


log = logging.getLogger("berth.users.server")

Answer = Callable[[Peer, Mapping[str, Any]], Mapping[str, object]]
"""Makes a reply from a request; the message of a BerthError becomes the user's error message."""
PeerOf = Callable[[int], Peer]

PROTOCOL_VERSION = 1
_PART = 65_536
_LOOK_S = 0.5
_LOGGED = 100


class UserServer:
    """Server of the users' socket: passes each request to ``answer`` and sends the reply, until
    ``stop``."""

    def __init__(
        self,
        listener: Listener,
        answer: Answer,
        peer_of: PeerOf,
        limits: RequestLimits | None = None,
    ) -> None:
        self.limits = limits or RequestLimits()
        self.counts: Counter[str] = Counter()
        self._listener = listener
        self._answer = answer
        self._peer_of = peer_of
        self._gate = Gate(self.limits)
        self._ending = threading.Event()

    def stop(self) -> None:
        """Finish requests in progress, then end. May be called from a signal handler or any
        thread."""
        self._ending.set()

    def run(self) -> bool:
        """Serve until ``stop`` (returns True) or until the socket is removed or replaced
        (False)."""
        self._listener.socket.settimeout(_LOOK_S)
        looked_s = time.monotonic()
        try:
            while not self._ending.is_set():
                self._accept()
                if time.monotonic() - looked_s > _LOOK_S:
                    looked_s = time.monotonic()
                    if self._listener.standing() is not SocketState.OURS:
                        log.error("%s is not ours any more: giving up", self._listener.path)
                        return False
        finally:
            self._listener.close()
        return True

    def _accept(self) -> None:
        try:
            connection, _address = self._listener.socket.accept()
        except TimeoutError:
            return
        except OSError as error:
            self.counts["accept-failed"] += 1
            if self.counts["accept-failed"] <= _LOGGED:
                log.warning("accept: %s", error.strerror)
            self._ending.wait(0.01)
            return
        uid = peer_uid(connection)
        why_not = self._gate.refusal(uid)
        if why_not is not None:
            self.counts["refused"] += 1
            connection.setblocking(False)
            with suppress(OSError):
                connection.send(_line({"error": why_not}))
            connection.close()
            return
        self.counts["accepted"] += 1
        thread = threading.Thread(
            target=self._serve, args=(connection, uid), name=f"user {uid}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the process cannot start another thread
            self._gate.leave(uid)
            connection.close()

    def _serve(self, connection: socket.socket, uid: int) -> None:
        try:
            with connection:
                reply = self._reply(connection, uid)
                if reply is not None:
                    connection.settimeout(self.limits.request_s)
                    connection.sendall(reply)
        except OSError:
            self.counts["lost"] += 1
        except Exception:
            self.counts["internal-errors"] += 1
            if self.counts["internal-errors"] <= _LOGGED:
                log.exception("a user's request failed")
        finally:
            self._gate.leave(uid)

    def _reply(self, connection: socket.socket, uid: int) -> bytes | None:
        line = self._line_from(connection)
        if line is None:
            return None
        try:
            return _line(self._answer(self._peer_of(uid), self._request(line)))
        except BerthError as error:
            if isinstance(error, StoreError):
                log.warning("%s", error.message)
            return _line({"error": error.message, "hint": error.hint})
        except Exception:
            self.counts["internal-errors"] += 1
            if self.counts["internal-errors"] <= _LOGGED:
                log.exception("a user's request failed")
            return _line({"error": "the request failed; its details are in the service's log"})

    def _request(self, line: bytes) -> Mapping[str, Any]:
        if len(line) > self.limits.request_bytes:
            raise UsageError(f"a request is at most {self.limits.request_bytes} bytes")
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            raise UsageError("the request is not JSON") from None
        if not isinstance(request, dict) or request.get("v") != PROTOCOL_VERSION:
            raise UsageError(f"not version {PROTOCOL_VERSION} of the users' protocol")
        return request

    def _line_from(self, connection: socket.socket) -> bytes | None:
        """Return one complete line from the connection, or more bytes than allowed; None: the
        line did not arrive in time."""
        deadline_s = time.monotonic() + self.limits.request_s
        parts = bytearray()
        while len(parts) <= self.limits.request_bytes:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                self.counts["timed-out"] += 1
                return None
            connection.settimeout(left_s)
            try:
                part = connection.recv(_PART)
            except TimeoutError:
                continue
            if not part:
                return None
            parts += part
            if part.endswith(b"\n"):
                return bytes(parts[:-1])
        return bytes(parts)


def _line(reply: Mapping[str, object]) -> bytes:
    fields = {key: value for key, value in reply.items() if value is not None}
    return json.dumps({"v": PROTOCOL_VERSION, **fields}, separators=(",", ":")).encode() + b"\n"
