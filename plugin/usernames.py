"""Looks up user names by uid, and uids by name, without blocking the caller for long.

A look-up may query a directory service and hang, so it runs in a thread of its own. A caller waits
at most a few milliseconds; a later call gets the result from memory.
"""

from __future__ import annotations

import pwd
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

WAIT_S = 0.005
KEPT_S = 600.0
_MOST = 10_000
_CREDENTIALS = struct.Struct("3i")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LookUps(Generic[K, V]):
    """Looks values up by key in a thread of its own, and caches the results for ten minutes.

    The thread starts with the first call of ``of``. ``look_up`` raises OSError where it fails.
    """

    def __init__(self, look_up: Callable[[K], V], thread: str) -> None:
        self._look_up, self._name = look_up, thread
        self._known: dict[K, tuple[V, float]] = {}
        self._asked: queue.SimpleQueue[tuple[K, threading.Event]] = queue.SimpleQueue()
        self._pending: dict[K, threading.Event] = {}
        self._thread: threading.Thread | None = None

    def of(self, key: K) -> V | None:
        """Return the value for this key; None: the look-up has not finished."""
        answer = self._known.get(key)
        if answer is not None and time.monotonic() - answer[1] < KEPT_S:
            return answer[0]
        self._ask(key).wait(0 if answer is not None else WAIT_S)
        answer = self._known.get(key, answer)
        return None if answer is None else answer[0]

    def _ask(self, key: K) -> threading.Event:
        event = self._pending.get(key)
        if event is not None:
            return event
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        event = self._pending[key] = threading.Event()
        self._asked.put((key, event))
        return event

    def _run(self) -> None:
        while True:
            key, event = self._asked.get()
            try:
                value = self._look_up(key)
            except OSError:
                pass
            else:
                if len(self._known) >= _MOST:
                    self._known.clear()
                self._known[key] = (value, time.monotonic())
            self._pending.pop(key, None)
            event.set()


class UserNames(LookUps[int, str]):
    """Looks up user names by uid; the name is ``uid:N`` where there is no such user."""

    def __init__(self, look_up: Callable[[int], str | None] | None = None) -> None:
        find = look_up or name_of
        super().__init__(lambda uid: find(uid) or f"uid:{uid}", "user names")


class UserNumbers(LookUps[str, int]):
    """Looks up uids by user name; the uid is NOBODY where there is no such user."""

    NOBODY = -1

    def __init__(self, look_up: Callable[[str], int] | None = None) -> None:
        super().__init__(look_up or _number_of, "user numbers")


def name_of(uid: int) -> str:
    """Return the name of the user with this uid; ``uid:N`` where this host knows no such user."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return f"uid:{uid}"


def peer_uid(connection: socket.socket) -> int:
    """Return the uid that the peer of a Unix socket had when it connected."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(credentials)[1]
    return uid


def _number_of(user: str) -> int:
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        return UserNumbers.NOBODY
