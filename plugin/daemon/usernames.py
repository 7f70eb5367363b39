"""Names of users by number, for filters that know only the number (Flux's).

The look-up may go to a directory service and hang, so it is made in a thread of its own; an answer
waits for it a few milliseconds at most and gets it from memory the next time.
"""

from __future__ import annotations

import pwd
import queue
import threading
import time
from collections.abc import Callable

WAIT_S = 0.005
KEPT_S = 600.0
_MOST = 10_000


class UserNames:
    """``of(uid)`` for the answering thread; the thread starts with the first question."""

    def __init__(self, look_up: Callable[[int], str | None] | None = None) -> None:
        self._look_up = look_up or _from_system
        self._known: dict[int, tuple[str, float]] = {}
        self._asked: queue.SimpleQueue[tuple[int, threading.Event]] = queue.SimpleQueue()
        self._pending: dict[int, threading.Event] = {}
        self._thread: threading.Thread | None = None

    def of(self, uid: int) -> str | None:
        """The user's name, ``uid:N`` where there is no such user; None: not known yet."""
        found = self._known.get(uid)
        if found is not None and time.monotonic() - found[1] < KEPT_S:
            return found[0]
        self._ask(uid).wait(0 if found is not None else WAIT_S)
        found = self._known.get(uid, found)
        return None if found is None else found[0]

    def _ask(self, uid: int) -> threading.Event:
        event = self._pending.get(uid)
        if event is not None:
            return event
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="user names", daemon=True)
            self._thread.start()
        event = self._pending[uid] = threading.Event()
        self._asked.put((uid, event))
        return event

    def _run(self) -> None:
        while True:
            uid, event = self._asked.get()
            try:
                name = self._look_up(uid) or f"uid:{uid}"
            except OSError:
                name = None
            if name is not None:
                if len(self._known) >= _MOST:
                    self._known.clear()
                self._known[uid] = (name, time.monotonic())
            self._pending.pop(uid, None)
            event.set()


def _from_system(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None
