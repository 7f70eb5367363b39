"""Steps of the background threads: each makes a new table and puts it into the Service by one
assignment, from the store, from the cluster, or from a process beside the daemon.

Learning from ended jobs (``berth jobs learn``) and simulating the queue (``berth jobs waits``)
need numpy and seconds of CPU time, which would delay the answering thread. So they run as Berth's
own commands, at low priority, on one core. Learnt forecasts come back through the store; expected
waits come back as tables that the answering thread uses until they are too old.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from berth.pilot.errors import BerthError
from berth.plugin.daemon.memory_guard import Guard
from berth.plugin.daemon.service import Service
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.daemon.view import Snapshot
from berth.plugin.host import HOST, Clock
from berth.plugin.scheduler.states import ReadStates, StatesReading
from berth.plugin.site.site import Site
from berth.plugin.store.store import Store
from berth.policies.values import CandidateState
from berth.policies.waits import WaitTable

log = logging.getLogger("berth.serve.background")

STORE_PERIOD_S = 1.0
SITE_PERIOD_S = 1.0


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


_NICE = 10
LEARNING_S = 600.0
WAITS_S = 120.0
PATIENCE = 3.0
"""Tables of expected waits are used until they are older than this many periods, or this many times
the time of computing them if that is longer. After that, waits are estimated without the tables.
"""


def ask_beside(site: Site, command: str, *, longest_s: float) -> dict[str, Any]:
    """Return the JSON object that ``berth COMMAND --json`` prints for the site. Raises
    BerthError."""
    program = "import sys; from berth.plugin.cli import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", program, *command.split(), "--json", "--site", site.source]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("BERTH_STORE", None)
    try:
        done = subprocess.run(  # our own command, without a shell
            ["nice", "-n", str(_NICE), *words],
            env=environment, capture_output=True, text=True, timeout=longest_s, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BerthError(f"berth {command} did not end: {error}") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise BerthError(f"berth {command} failed: {lines[-1] if lines else done.returncode}")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise BerthError(f"berth {command} answered with something else than JSON")
    return answer


def follow_jobs(
    store: Store, site: Site, *, clock: Callable[[], float] = time.time
) -> Callable[[], None]:
    """Return a function, to be called periodically, that runs ``berth jobs learn`` when jobs have
    ended since its last run.

    The function raises BerthError where the command fails, and StoreError.
    """

    def step() -> None:
        if store.learning.has_work(clock()):
            _learn(site)

    return step


def _learn(site: Site) -> None:
    done = ask_beside(site, "jobs learn", longest_s=LEARNING_S)
    for notice in done["notices"]:
        log.warning("%s", notice)
    log.info(
        "learnt from %d of %d ended jobs: %d forecasts are new",
        done["used"], done["jobs"], len(done["forecasts"]),
    )  # fmt: skip


class _Tables(NamedTuple):
    tables: Mapping[str, WaitTable]
    at_s: float
    """Monotonic time in seconds at which the computation of the tables began."""
    patience_s: float


class ExpectedWaits:
    """The newest tables of expected waiting times by candidate, replaced together."""

    def __init__(self, period_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._period_s, self._clock = period_s, clock
        self._newest = _Tables({}, 0.0, 0.0)

    def renew(self, make: Callable[[], Mapping[str, WaitTable]]) -> None:
        """Replace the tables of expected waits by the result of ``make``; on an exception they
        stay.
        """
        begin_s = self._clock()
        tables = make()
        longest_s = max(self._period_s, self._clock() - begin_s)
        self._newest = _Tables(tables, begin_s, PATIENCE * longest_s)

    @property
    def age_s(self) -> float | None:
        """Return the age of the tables of expected waits in seconds; None: there are no tables."""
        newest = self._newest
        return self._clock() - newest.at_s if newest.tables else None

    def fresh(self) -> Mapping[str, WaitTable]:
        """Return the tables of expected waits by candidate; empty where they are too old."""
        newest = self._newest
        return newest.tables if self._clock() - newest.at_s <= newest.patience_s else {}


def follow_waits(
    site: Site,
    states: Callable[[], Mapping[str, CandidateState]],
    waits: ExpectedWaits,
) -> Callable[[], None]:
    """Return a function, to be called periodically, that renews the tables of expected waits while
    any job runs or waits.

    The function raises BerthError.
    """

    def step() -> None:
        waits.renew(lambda: _ask(site) if _in_use(site, states()) else {})

    return step


def with_waits(read: ReadStates, waits: ExpectedWaits) -> ReadStates:
    """Return a reader of candidates' states that adds the expected waits to them."""

    def both() -> StatesReading:
        reading, tables = read(), waits.fresh()
        if not tables:
            return reading
        states = {
            name: replace(state, waits=tables.get(name)) for name, state in reading.states.items()
        }
        return replace(reading, states=MappingProxyType(states))

    return both


def _in_use(site: Site, states: Mapping[str, CandidateState]) -> bool:
    """Return whether any candidate of the site has busy cores or waiting jobs."""
    for candidate in site.candidates:
        state = states.get(candidate.name)
        if state is None or not state.up:
            continue
        nodes = (candidate.nodes if state.usable_nodes is None else state.usable_nodes) or 0
        if state.pending_jobs or state.idle_cores < nodes * candidate.cores_per_node:
            return True
    return False


def _ask(site: Site) -> dict[str, WaitTable]:
    answer = ask_beside(site, "jobs waits", longest_s=WAITS_S)
    try:
        return {name: WaitTable.of_dict(table) for name, table in answer["tables"].items()}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BerthError(f"berth jobs waits answered something unreadable: {error}") from None
