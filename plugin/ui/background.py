"""Work that takes longer than a page may: done in a thread, and shown until it is old."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from berth.pilot.errors import BerthError

log = logging.getLogger("berth.ui")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Refreshed(Generic[V]):
    """A result, or the problem instead of it, and when it was made (Unix, s)."""

    value: V | None
    problem: BerthError | None
    unix_s: float
    monotonic_s: float


class Background(Generic[K, V]):
    """Results by key, shared by all viewers; at most one thread works at a time."""

    def __init__(
        self, name: str, make: Callable[[K], V], *, fresh_s: float = 60.0, patience_s: float = 1.2
    ) -> None:
        """Take the function that makes a result, and may raise BerthError; ``name`` it for people.

        ``fresh_s``: seconds for which a result is shown before it is made again; ``patience_s``:
        seconds that a request waits for a new one.
        """
        self._name, self._make = name, make
        self._fresh_s, self._patience_s = fresh_s, patience_s
        self._lock = threading.Lock()
        self._made: dict[K, Refreshed[V]] = {}
        self._working: threading.Thread | None = None

    def newest(self, key: K) -> Refreshed[V] | None:
        """Return the newest result, perhaps an old one while a new one is made; None: the first is
        still being made. Raises BerthError where making it failed."""
        with self._lock:
            made, working = self._made.get(key), self._working
            # A failure is tried again at once, as its cause may be gone.
            is_old = (
                made is None
                or made.problem is not None
                or time.monotonic() - made.monotonic_s > self._fresh_s
            )
            if is_old and (working is None or not working.is_alive()):
                working = threading.Thread(target=self._work, args=(key,), daemon=True)
                self._working = working
                working.start()
        if is_old and working is not None:
            working.join(self._patience_s)
            made = self._made.get(key, made)
        if made is not None and made.problem is not None:
            raise made.problem
        return made

    def _work(self, key: K) -> None:
        value, problem = None, None
        try:
            value = self._make(key)
        except BerthError as error:
            problem = error
        except Exception:
            log.exception("%s failed", self._name)
            problem = BerthError(f"{self._name} failed", hint="see what the page printed")
        made = Refreshed(value, problem, time.time(), time.monotonic())
        with self._lock:
            self._made[key] = made
