"""Daemon threads: one that ends on a request to stop or with the process, and one that acts
periodically.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

from berth.pilot.errors import BerthError
from berth.plugin.host import HOST, Host

log = logging.getLogger("berth.serve.background")


class Worker(ABC):
    """Base class of a thread: ``run`` of the subclass is called in the background."""

    def __init__(self, name: str, host: Host) -> None:
        self.name = name
        self._thread = host.threads.thread(name, self.run)

    @abstractmethod
    def run(self) -> None:
        """Do the thread's work until somebody requests the thread to stop."""

    def start(self) -> None:
        """Start the thread that does the worker's tasks."""
        self._thread.start()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the thread's end, at most ``timeout_s`` seconds."""
        self._thread.join(timeout_s)

    def is_alive(self) -> bool:
        """Return whether the thread has started and not ended."""
        return self._thread.is_alive()


class Periodic(Worker):
    """Calls the function ``step`` in a thread every ``period_s`` seconds, or at once after
    ``poke``.

    The first call is at the thread's start, or ``delay_s`` seconds later.
    """

    def __init__(
        self,
        name: str,
        period_s: float,
        step: Callable[[], None],
        *,
        delay_s: float = 0.0,
        host: Host = HOST,
    ) -> None:
        super().__init__(name, host)
        self._delay_s = delay_s
        self.period_s = period_s
        self.problem: str | None = None
        """Why the last step failed; None: it succeeded."""
        self._step = step
        self._wake = host.threads.event()
        self._over = False

    def run(self) -> None:
        """Call ``step`` periodically until ``stop``."""
        if self._delay_s:
            self._wake.wait(self._delay_s)
            self._wake.clear()
        while not self._over:
            self.once()
            self._wake.wait(self.period_s)
            self._wake.clear()

    def once(self) -> None:
        """Call ``step`` once; an exception is kept in ``problem``, and logged if it is new."""
        try:
            self._step()
        except BerthError as error:
            self._went_wrong(error.message)
        except Exception as error:
            if self.problem is None:
                log.exception("%s failed; it goes on", self.name)
            self._went_wrong(f"{type(error).__name__}: {error}")
        else:
            if self.problem is not None:
                log.info("%s works again", self.name)
            self.problem = None

    def poke(self) -> None:
        """Make the next call of ``step`` happen now."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread after the current step."""
        self._over = True
        self._wake.set()

    def _went_wrong(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("%s: %s", self.name, problem)
        self.problem = problem
