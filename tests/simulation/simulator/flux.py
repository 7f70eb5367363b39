"""A Flux broker's worker with Berth's frobnicator in it."""

from __future__ import annotations

import errno
import json
import socket
import types
from typing import Any

from berth.plugin.daemon.protocol import parse_stamp
from berth.plugin.flux.filter import FILTER_PATH
from simulator.jobs import Job, flux_job
from simulator.machine import SOCKET, SWITCH, Machine
from simulator.network import Client, garbled
from simulator.scheduler import Scheduler
from simulator.world import Process, SimClock, World

DEADLINE_S = 0.05
SOURCE = FILTER_PATH.read_text()
_SETTINGS = {
    "socket": SOCKET,
    "kill_switch": SWITCH,
    "deadline_ms": 50,
    "breaker_first_pause_s": 0.1,
    "breaker_longest_pause_s": 1,
}
_CONFIG = {
    "queues": {"auto": {}, "cpu": {}, "gpu": {}},
    "ingest": {"frobnicator": {"berth": _SETTINGS}},
}


def _copy(spec: dict[str, Any]) -> Any:
    return json.loads(json.dumps(spec))


class Jobspec:
    """What the frobnicator sees of Flux's class."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.jobspec = spec


class Worker(Scheduler):
    """One `flux job-frobnicator`, which takes one job after another."""

    source = SOURCE

    def _start(self) -> None:
        machine = self.machine
        self.process = process = Process(self.world, f"{machine.name}'s frobnicator")
        module: Any = types.ModuleType("frobnicator")
        exec(compile(self.source, str(FILTER_PATH), "exec"), module.__dict__)  # noqa: S102
        module.socket = _Sockets(process, machine)
        module.select = _Select(process)
        module.time = SimClock(process, machine)
        module.os = _Os(process, machine)
        module.signal = _Signals()
        module.sys = types.SimpleNamespace(stdout=None, stderr=_Nowhere())
        self._plugin = module.Frobnicator(None)
        self._plugin.configure(None, _CONFIG)

    def submit(self, world: World) -> None:
        """What somebody's `flux submit` does."""
        job = flux_job(world.random, self.ledger.name())
        world.spawn(self.process, lambda: self._handle(job))

    def _decide(self, job: Job) -> None:
        world, process, machine = self.world, self.process, self.machine
        begun_s, off = world.now_s, machine.switched_off
        before = _copy(job.spec)
        jobspec = Jobspec(job.spec)
        self._plugin.frob(jobspec, job.fields["uid"], 16, 0)
        process.check()
        if job.spec != before:
            world.violate(f"{job.name}'s jobspec was changed in place")
        job.took_s = world.now_s - begun_s
        if job.took_s > DEADLINE_S + 1e-3:
            world.violate(f"{job.name} waited {job.took_s:.3f} s for Berth")
        changed = self._check(job, before, jobspec.jobspec)
        self._save(job, changed, process, off=off)

    def _check(self, job: Job, before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
        """What must hold of each job; what was changed, as for Slurm."""
        world = self.world
        notes = (now["attributes"].get("user") or {}).get("berth") or {}
        stamp = notes.get("decision")
        said = (parse_stamp(stamp) or {}) if stamp else {}
        plain = _copy(now)
        mine = plain["attributes"]["user"].get("berth", {})
        for key in ("decision", "message"):
            mine.pop(key, None)
        if not mine:
            plain["attributes"]["user"].pop("berth", None)
        edited = plain != before
        if job.opted_out and now != before:
            world.violate(f"{job.name} opted out and was changed")
        if edited and said.get("action") != "edit":
            world.violate(f"{job.name} was edited without a stamp of it: {now}")
        if said.get("action") == "edit":
            queue = now["attributes"]["system"].get("queue")
            if not edited:
                world.violate(f"{job.name} has the stamp of an edit and is as it was")
            if before["attributes"]["system"].get("queue") not in (None, "auto"):
                world.violate(f"{job.name} chose its queue and was moved")
            if queue not in ("cpu", "gpu"):
                world.violate(f"{job.name} was sent to {queue}")
            return {"admin_comment": stamp, "partition": queue}
        return {"admin_comment": stamp} if stamp else {}


class _Nowhere:
    def write(self, _text: str) -> None:
        pass

    def flush(self) -> None:
        pass


class _Signals:
    """As in a thread that may set no signals: the deadline of the exchange holds all the same."""

    SIGALRM = 14

    def signal(self, *_: object) -> None:
        raise ValueError("not the main thread")


class _Os:
    def __init__(self, process: Process, machine: Machine) -> None:
        self._process, self._machine = process, machine

    def stat(self, path: str) -> None:
        self._process.check()
        if self._process.world.faults.at("flux.switch") is not None:
            raise PermissionError(errno.EACCES, "Permission denied")
        if not self._machine.switched_off:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")


class _Socket:
    """A non-blocking socket."""

    def __init__(self, process: Process, machine: Machine) -> None:
        self.client = Client(process, machine, "flux")
        self._process = process

    def setblocking(self, _flag: bool) -> None:
        pass

    def connect(self, path: str) -> None:
        self.client.connect(path)

    def send(self, data: bytes) -> int:
        return self.client.send(data)

    def recv(self, count: int) -> bytes:
        if count == 1:
            return self.client.take(1)
        self._process.check()
        world = self._process.world
        kind = world.faults.at("flux.recv")
        if kind == "closed":
            raise ConnectionResetError(errno.ECONNRESET, "closed")
        part = self.client.take(world.random.randint(1, 30) if kind == "short" else count)
        if kind == "garbage" and part:
            part = garbled(part, world.random)
        return part

    def close(self) -> None:
        self.client.close()


class _Sockets:
    AF_UNIX, SOCK_STREAM = socket.AF_UNIX, socket.SOCK_STREAM

    def __init__(self, process: Process, machine: Machine) -> None:
        self._process, self._machine = process, machine

    def socket(self, *_: object) -> _Socket:
        return _Socket(self._process, self._machine)


class _Select:
    POLLIN = 1

    def __init__(self, process: Process) -> None:
        self._process = process

    def poll(self) -> _Poll:
        return _Poll(self._process)


class _Poll:
    def __init__(self, process: Process) -> None:
        self._process = process

    def register(self, peer: _Socket, _mask: int) -> None:
        self._peer = peer

    def poll(self, timeout_ms: float) -> list[int]:
        if self._process.world.faults.at("flux.poll") is not None:
            self._process.world.sleep(min(timeout_ms / 1000, 0.02))
            timeout_ms = max(0.0, timeout_ms - 20)
        return [1] if self._peer.client.wait(timeout_ms / 1000) else []
