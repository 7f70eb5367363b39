"""Hosts of a site, and the daemon on each: started, stopped, killed and started anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from views import site_of

from berth.pilot.errors import BerthError, SchedulerError
from berth.plugin.daemon.app import view
from berth.plugin.daemon.core import AnsweringCore
from berth.plugin.daemon.following import follow_cluster
from berth.plugin.daemon.record import Identifiers
from berth.plugin.daemon.server import End as Ended
from berth.plugin.daemon.threads import Periodic
from berth.plugin.daemon.view import SiteView
from berth.plugin.host import Host
from berth.plugin.scheduler import StatesReading
from berth.policies.values import CandidateState
from simulator.database import Server, store_of
from simulator.disk import Disk, SimFiles
from simulator.faults import Violation
from simulator.network import End, SimListener, SimNetwork, SimPeer
from simulator.world import EPOCH_S, Process, SimClock, SimThreads, World

SOCKET = "/run/berth/berth.sock"
SWITCH = "/etc/berth/off"
SPOOL = Path("/var/lib/berth/store.db.spool.jsonl")
MODES = ("enforce", "enforce", "enforce", "advise", "shadow")
USERS = {1000 + number: name for number, name in enumerate(("alice", "bob", "carol", "dan"))}


@cache
def view_of(mode: str) -> SiteView:
    """What a daemon has read of the site file."""
    return view(site_of(mode, fit="unnamed_partition = true", folder="/etc/berth"))


class Machine:
    """A login or controller host."""

    def __init__(self, world: World, name: str, database: Server) -> None:
        self.world, self.name, self.database = world, name, database
        self.clock_offset_s = world.random.choice((0.0, -2.0, 3.0))
        self.disk = Disk()
        self.listening: dict[str, SimListener] = {}
        self.ends: dict[int, Any] = {}
        self._next = 1_000
        self.mode = "enforce"
        self.mode_changed_s = 0.0
        self.daemon: Daemon | None = None

    def number(self, end: Any) -> int:
        self._next += 1
        self.ends[self._next] = end
        return self._next

    def peer(self, end: End) -> SimPeer:
        """A daemon's end of a connection."""
        return SimPeer(end, self.number(end))

    def host(self, process: Process, files: SimFiles) -> Host:
        """This machine as a process sees it: every daemon has the same pid, as in containers."""
        return Host(
            clock=SimClock(process, self),
            files=files,
            threads=SimThreads(process),
            network=SimNetwork(process, self),
            pid=lambda: 1,
            name=lambda: self.name,
        )

    @property
    def switched_off(self) -> bool:
        """The kill switch is there."""
        return SWITCH in self.disk.files


class Names:
    """Users by number, as ``daemon.usernames``."""

    def __init__(self, world: World) -> None:
        self._world = world

    def of(self, uid: int) -> str | None:
        if self._world.faults.at("daemon.names") is not None:
            return None
        return USERS.get(uid, f"uid:{uid}")


class Daemon:
    """``berth serve`` under a supervisor that starts it again whenever it ends."""

    def __init__(self, machine: Machine, read: Callable[[], Mapping[str, CandidateState]]) -> None:
        self.machine, self.world = machine, machine.world
        self._read = read
        self.process = Process(self.world, machine.name)
        self.core: AnsweringCore | None = None
        self.files: list[SimFiles] = []
        """Of each daemon there was."""
        self.dropped = self.starts = self.internal_errors = 0
        self._wanted = True
        machine.daemon = self

    def start(self) -> None:
        """Begin; it goes on until ``finish``."""
        world = self.world
        self.process = process = Process(world, f"{self.machine.name}'s daemon")
        process.at_end.append(self._ended)
        self.starts += 1
        world.spawn(process, self._main)

    def _main(self) -> None:
        machine, process, world = self.machine, self.process, self.world
        files = SimFiles(process, machine.disk)
        host = machine.host(process, files)
        self.files.append(files)
        try:
            store = store_of(machine.database, process)
        except BerthError:
            process.kill()
            return
        old = machine.listening.get(SOCKET)
        if old is not None and old.alive:
            raise Violation("two daemons listen at one socket")
        core = AnsweringCore(
            view_of(machine.mode),
            store,
            SPOOL,
            SimListener(process, machine, Path(SOCKET)),
            {0, 1},
            names=Names(world),  # type: ignore[arg-type]
            identifiers=Identifiers(host.clock, world.random.getrandbits),
            host=host,
        )
        cluster = Periodic(
            "cluster reader", 1.0, follow_cluster(core.service, self._states, clock=host.clock),
            host=host,
        )  # fmt: skip
        self.core = core
        core.start()
        cluster.start()
        end, all_well = core.server.run(), not world.faults.on
        cluster.stop()
        core.stop()
        if end is Ended.SOCKET_LOST and all_well:
            raise Violation("the daemon gave its socket up")
        process.kill()

    def _states(self) -> StatesReading:
        world = self.world
        self.process.check()
        kind = world.faults.at("cluster.read")
        if kind == "slow":
            world.sleep(world.random.choice((0.5, 5.0)))
        if kind == "fail":
            raise SchedulerError("the scheduler does not answer")
        if kind == "broken":
            raise ValueError("not what was expected")
        states = dict(self._read())
        if kind == "partial":
            states.pop(next(iter(states)))
        return StatesReading(states)

    def _ended(self) -> None:
        core, self.core = self.core, None
        if core is not None:
            self.dropped += core.recorder.dropped
            self.internal_errors += core.service.stats.counts["internal-errors"]
        if self._wanted:
            world = self.world
            nobody = Process(world, "supervisor")
            delay_s = world.random.choice((0.02, 0.1, 0.5)) if world.faults.on else 0.1
            world.spawn(nobody, self.start, delay_s)

    def terminate(self) -> None:
        if self.core is not None:
            self.core.server.stop()

    def finish(self) -> None:
        """SIGTERM, and not started again."""
        self._wanted = False
        self.terminate()

    @property
    def unjournalled(self) -> set[str]:
        """Decisions that could not be written to a journal."""
        return set().union(*(files.unjournalled for files in self.files))


def state(
    world: World, *, up: bool = True, cores: int = 128, gpus: int = 0, pending: int = 0
) -> CandidateState:
    """How a candidate stands now."""
    return CandidateState(up, cores, gpus, pending, EPOCH_S + world.now_s)
