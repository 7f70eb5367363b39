"""The background threads that refresh the Service's tables: from the store and from the cluster.

Each thread makes a new table and puts it into the Service by one assignment. After a failure a
thread keeps the last good table, logs when the problem begins and when it is over, and goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import MappingProxyType

from berth.pilot.errors import BerthError
from berth.plugin.daemon.memory_guard import Guard
from berth.plugin.daemon.service import Service
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.daemon.view import Snapshot
from berth.plugin.daemon.worker import Worker
from berth.plugin.host import HOST, Clock, Host
from berth.plugin.scheduler.states import ReadStates
from berth.plugin.store.store import Store

log = logging.getLogger("berth.serve.background")

STORE_PERIOD_S = 1.0
SITE_PERIOD_S = 1.0


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


def follow_store(service: Service, store: Store) -> Callable[[], None]:
    """Return a function, to be called periodically, that loads new workloads and forecasts from the
    store into the Service.
    """

    def step() -> None:
        shelf = service.shelf
        identity, revision = store.identity_and_revision()
        if (identity, revision) == (shelf.identity, shelf.revision):
            return
        if identity != shelf.identity or revision < shelf.revision:
            shelf = Shelf()  # the database was replaced by another store or by a backup
        service.shelf = shelf.updated(store.changes_since(shelf.revision))
        log.info("store revision %d: %d forecasts", revision, len(service.shelf))

    return step


def follow_cluster(
    service: Service,
    read: ReadStates,
    guard: Callable[[], Guard] = Guard,
    clock: Clock = HOST.clock,
) -> Callable[[], None]:
    """Return a function, to be called periodically, that reads the candidates' states into the
    Service.

    If reading fails, the previous states stay.
    """

    def step() -> None:
        wall_s, monotonic_s = clock.time(), clock.monotonic()
        reading = read()
        states = MappingProxyType(dict(reading.states))
        service.snapshot = Snapshot(states, wall_s, monotonic_s, guard(), reading.own_queues)

    return step
