"""One world from its seed: hosts, daemons, filters, troubles; then peace, and what must hold."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from berth_daemon import forecast

from berth.pilot.errors import BerthError
from berth.plugin.store import ForecastRecord, Store, WorkloadRecord
from simulator.database import Server, store_of
from simulator.jobs import Accepted, Ledger
from simulator.machine import EPOCH_S, MODES, SOCKET, SWITCH, Daemon, Machine, state, view_of
from simulator.slurm import DOWN, UP, Slurmctld
from simulator.world import Process, World

SUBMISSIONS = 2_500
"""Of one world."""


@dataclass
class Result:
    """What a world came to."""

    seed: int
    submissions: int
    faults: Counter[tuple[str, str]]
    violations: list[str]
    counts: Counter[str] = field(default_factory=Counter)


@cache
def document(name: str, cpu_s: float) -> str:
    """A forecast of a workload as the store keeps it."""
    return forecast(name, cpu_s, cpu_s / 10).to_json()


class _Tracebacks(logging.Handler):
    """Nothing may end in a traceback, in whatever thread it is caught."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and "cluster reader" not in record.getMessage():
            text = logging.Formatter().formatException(record.exc_info)
            self._world.violate(f"{record.getMessage()}\n{text}")


class Site:
    """Everything there is in one world."""

    def __init__(
        self,
        seed: int,
        submissions: int,
        hosts: int | None = None,
        focus: Mapping[str, str] | None = None,
    ) -> None:
        self.world = world = World(seed, focus)
        random = world.random
        self.submissions = submissions
        self.database = Server(world)
        self.ledger = Ledger()
        self.admin = Process(world, "admin")
        world.faults.on = False
        self._learn("stream", 600.0)
        self._learn("solver", 60.0)
        self._learn("train", 6_000.0)
        world.faults.on = True
        self.filters: list[Slurmctld] = []
        self.daemons: list[Daemon] = []
        for number in range(hosts or random.choice((1, 1, 2, 3))):
            machine = Machine(world, f"host-{number}", self.database)
            found = Slurmctld(machine, self.ledger)
            self.filters.append(found)
            daemon = Daemon(machine, lambda found=found: self._states(found))
            self.daemons.append(daemon)
            daemon.start()
        self.rate = random.choice((20.0, 60.0, 200.0))
        self.made = self.stored = 0

    def _states(self, found: Slurmctld) -> dict[str, Any]:
        busy = 40 if int(self.world.now_s) % 20 < 10 else 0
        up = {name: found.parts[name]["state_up"] == UP for name in ("cpu", "gpu")}
        return {
            "cpu": state(self.world, up=up["cpu"], cores=128 - busy, pending=busy // 10),
            "gpu": state(self.world, up=up["gpu"], cores=32, gpus=4 if not busy else 1),
        }

    def _store(self, process: Process) -> Store:
        return store_of(self.database, process)

    def _learn(self, name: str, cpu_s: float, process: Process | None = None) -> None:
        """Predict a workload anew, as ``berth jobs learn`` and ``berth workload`` do."""
        store = self._store(process or self.admin)
        made_s = EPOCH_S + self.world.now_s
        text = document(name, cpu_s)
        store.add(
            WorkloadRecord(name, "program", f"sha256:{name}", "{}", "x", made_s), replace=True
        )
        store.put_forecast(ForecastRecord(name, f"bundle-{cpu_s:g}", text, made_s))

    # What goes on

    def users(self) -> None:
        world, random = self.world, self.world.random
        while self.made < self.submissions:
            world.sleep(random.expovariate(self.rate))
            burst = random.randint(5, 40) if random.random() < 0.01 else 1
            for _ in range(min(burst, self.submissions - self.made)):
                self.made += 1
                random.choice(self.filters).submit(world)

    def learner(self) -> None:
        """``berth jobs learn`` beside the daemons: each time a process of its own."""
        world = self.world
        while world.faults.on:
            world.sleep(world.random.expovariate(0.3))
            name = world.random.choice(("stream", "solver", "train"))
            cpu_s = world.random.choice((60.0, 600.0, 6_000.0))
            process = Process(world, "berth jobs learn")

            def main(process: Process = process, name: str = name, cpu_s: float = cpu_s) -> None:
                with contextlib.suppress(BerthError):
                    self._learn(name, cpu_s, process)

            world.spawn(process, main)

    def weather(self) -> None:
        """What happens to hosts and to the database as a whole."""
        world, random = self.world, self.world.random
        troubles = (
            ("database", self._database_down), ("disk", self._disk_full),
            ("daemon", self._daemon_ends), ("clock", self._clock_jumps),
            ("site", self._site_edited), ("partition", self._partition_changes),
            ("switch", self._switch_thrown), ("socket", self._socket_removed),
            ("prune", self._prune),
        )  # fmt: skip
        while world.faults.on:
            world.sleep(random.expovariate(0.4))
            _, trouble = random.choice(troubles)
            if world.faults.on:
                self._beside(trouble)

    def _beside(self, run: Any) -> None:
        self.world.spawn(self.admin, run)

    def _any(self) -> Machine:
        return self.world.random.choice(self.daemons).machine

    def _database_down(self) -> None:
        self.world.faults.met("weather.database", "down")
        self.database.down = True
        self.world.sleep(self.world.random.choice((0.3, 3.0, 15.0)))
        self.database.down = False

    def _disk_full(self) -> None:
        self.world.faults.met("weather.disk", "full")
        disk = self._any().disk
        disk.full = True
        self.world.sleep(self.world.random.choice((0.3, 5.0)))
        disk.full = False

    def _daemon_ends(self) -> None:
        daemon = self.world.random.choice(self.daemons)
        kind = self.world.random.choice(("term", "kill"))
        self.world.faults.met("weather.daemon", kind)
        if kind == "term":
            daemon.terminate()
        else:
            daemon.process.kill()

    def _clock_jumps(self) -> None:
        self.world.faults.met("weather.clock", "jump")
        self._any().clock_offset_s += self.world.random.choice((-3_600.0, -1.0, 1.0, 120.0))

    def _site_edited(self) -> None:
        self.world.faults.met("weather.site", "edited")
        daemon = self.world.random.choice(self.daemons)
        daemon.machine.mode = self.world.random.choice(MODES)
        if daemon.core is not None:
            daemon.core.service.site = view_of(daemon.machine.mode)

    def _partition_changes(self) -> None:
        found = self.world.random.choice(self.filters)
        self.world.faults.met("weather.partition", "changed")
        part = found.parts[self.world.random.choice(("cpu", "gpu"))]
        part["state_up"] = DOWN if part["state_up"] == UP else UP
        found.changed()

    def _switch_thrown(self) -> None:
        from simulator.disk import Inode

        self.world.faults.met("weather.switch", "thrown")
        disk = self._any().disk
        disk.files[SWITCH] = Inode()
        self.world.sleep(self.world.random.choice((0.1, 2.0)))
        disk.files.pop(SWITCH, None)

    def _socket_removed(self) -> None:
        self.world.faults.met("weather.socket", "removed")
        self._any().listening.pop(SOCKET, None)

    def _prune(self) -> None:
        """``berth prune`` of what nobody wants any more: nothing young goes."""
        self.world.faults.met("weather.prune", "run")
        process = Process(self.world, "berth prune")

        def main() -> None:
            with contextlib.suppress(BerthError):
                self._store(process).decisions.prune(EPOCH_S - 86_400.0)

        self.world.spawn(process, main)

    # From the beginning to the end

    def run(self) -> Result:
        world = self.world
        handler = _Tracebacks(world)
        logger = logging.getLogger("berth")
        level, propagates = logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        try:
            self._run()
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagates
            self._end()
        counts: Counter[str] = Counter()
        counts["daemons started"] = sum(d.starts for d in self.daemons)
        counts["decisions stored"] = self.stored
        counts["jobs accepted"] = len(self.ledger.accepted)
        counts["edited"] = sum(a.action == "edit" for a in self.ledger.accepted.values())
        counts["accepted, and the user saw otherwise"] = len(
            self.ledger.accepted.keys() - self.ledger.confirmed
        )
        return Result(world.seed, self.made, world.faults.counts, world.violations, counts)

    def _run(self) -> None:
        world = self.world
        for going in (self.users, self.learner, self.weather):
            world.spawn(self.admin, going)
        world.run(until=lambda: self.made >= self.submissions)
        world.run(world.now_s + 1.0)
        if world.violations:
            return
        # Peace: what was put off is done now.
        world.faults.on = False
        world.run(world.now_s + 40.0)
        for daemon in self.daemons:
            self._check_shelf(daemon)
        for _ in range(2):  # once more: what one daemon left behind the next one brings in
            for daemon in self.daemons:
                daemon.terminate()
            world.run(world.now_s + 20.0)
        for daemon in self.daemons:
            self._check_shelf(daemon)
            daemon.finish()
        world.run(world.now_s + 20.0)
        if not world.violations:
            self._check_store()

    def _end(self) -> None:
        """Nothing goes on after this."""
        for daemon in self.daemons:
            daemon._wanted = False
            daemon.process.kill()
        for found in self.filters:
            found.process.kill()
        self.admin.kill()
        world = self.world
        violations, world.violations = world.violations, []
        world.run(world.now_s + 30.0)
        world.violations = violations
        self.stored = self.database.raw.execute("SELECT count(*) FROM decisions").fetchone()[0]
        self.database.close()

    # What must hold

    def _check_shelf(self, daemon: Daemon) -> None:
        """What was learnt has reached every daemon."""
        core = daemon.core
        if core is None:
            self.world.violate(f"no daemon on {daemon.machine.name} in peace")
            return
        store, shelf = Store(self._database()), core.service.shelf
        if (shelf.identity, shelf.revision) != store.identity_and_revision():
            self.world.violate(
                f"a shelf of {shelf.revision} for a store of {store.identity_and_revision()}"
            )
        for name in store.names():
            (newest, *_) = store.forecasts(name)
            found = shelf.forecast(name)
            if found is None or found.to_json() != newest.document:
                self.world.violate(f"{daemon.machine.name} does not know {name} as it is")

    def _database(self) -> Any:
        from simulator.database import SimDatabase

        return SimDatabase(self.database, self.admin)

    def _check_store(self) -> None:
        """Each decision is stored once, as it was carried out, or counted as lost."""
        world = self.world
        rows = {
            row[0]: row[1:]
            for row in self.database.raw.execute(
                "SELECT id, user, queue, action, edits, host FROM decisions"
            )
        }
        lost = self.database.raw.execute(
            "SELECT count(*) FROM decisions WHERE ranking IS NOT NULL "
            "AND ranking NOT IN (SELECT digest FROM rankings)"
        ).fetchone()[0]
        if lost:
            world.violate(f"{lost} decisions lack their alternatives")
        unjournalled = set().union(*(d.unjournalled for d in self.daemons))
        dropped = sum(d.dropped for d in self.daemons)
        for name, one in self.ledger.accepted.items():
            if one.decision is None:
                continue
            row = rows.get(one.decision)
            if row is None:
                if one.decision not in unjournalled and not dropped:
                    world.violate(f"the decision {one.decision} of {name} is not in the store")
                continue
            self._check_row(name, one, row)
        for daemon in self.daemons:
            if daemon.internal_errors:
                world.violate(f"{daemon.internal_errors} requests failed inside the daemon")
            left = [p for p, i in daemon.machine.disk.files.items() if i.data and "store.db" in p]
            left = [path for path in left if not path.endswith(".bad")]
            if left and not dropped:
                world.violate(f"left behind after all: {left}")

    def _check_row(self, name: str, one: Accepted, row: tuple[Any, ...]) -> None:
        user, queue, action, edits, host = row
        asked = one.job.fields.get("partition")
        if user != one.job.user:
            self.world.violate(f"{name} of {one.job.user} has the decision of {user}'s job")
        if (queue or None) != (asked or None):
            self.world.violate(f"{name}: asked for {asked}, decided for {queue}")
        if one.action != action and one.code not in ("untranslated", "site-rule"):
            self.world.violate(f"{name}: {one.action} on the job, {action} in the store")
        if one.queue is not None and f'"queue":"{one.queue}"' not in edits:
            self.world.violate(f"{name} was sent to {one.queue}, decided was {edits}")
        if host != one.machine:
            self.world.violate(f"{name} of {one.machine} has a decision of {host}")


def simulate(
    seed: int,
    submissions: int = SUBMISSIONS,
    hosts: int | None = None,
    focus: Mapping[str, str] | None = None,
) -> Result:
    """One world. ``focus``: calls that fail often in it, and how, beside the seed's own."""
    return Site(seed, submissions, hosts, focus).run()
