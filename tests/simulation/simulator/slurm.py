"""A slurmctld with Berth's filter in it, run by Lua itself; and the users who submit to it."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

from lupa import lua51
from stamps import problem_of_was

from berth.plugin.daemon.protocol import parse_stamp
from berth.plugin.slurm.filter import FILTER_PATH
from simulator.jobs import Job, Ledger, slurm_job
from simulator.machine import SOCKET, SWITCH, USERS, Machine
from simulator.network import Client, garbled
from simulator.world import EPOCH_S, Process, Task, World

HERE = Path(__file__).parent
DEADLINE_S = 0.05
SOURCE = FILTER_PATH.read_text()
_PRELUDE = (HERE / "slurmctld.lua").read_text()
_JSON = (HERE / "json.lua").read_text()
_CONFIG = f"# the site's\nsocket = {SOCKET}\nkill_switch = {SWITCH}\ndeadline_ms = 50\n"
_CONFIG += "breaker_first_pause_s = 0.1\nbreaker_longest_pause_s = 1\n"
UP, DOWN = 3, 1


def partitions() -> dict[str, dict[str, Any]]:
    """As Slurm's Lua shows them."""
    nodes = {"max_time": 1440, "default_time": 60, "max_nodes": 4294967295, "min_nodes": 0}
    cpu = {**nodes, "state_up": UP, "flags": 0, "total_nodes": 2, "total_cpus": 128}
    return {
        "cpu": cpu,
        "auto": dict(cpu),
        "gpu": {**cpu, "total_nodes": 1, "total_cpus": 32},
        "closed": {**cpu, "allow_accounts": "others"},
    }


class Slurmctld:
    """One controller, which decides about one job after another, and may die."""

    process: Process
    source = SOURCE

    def __init__(self, machine: Machine, ledger: Ledger) -> None:
        self.machine, self.world, self.ledger = machine, machine.world, ledger
        self.parts = partitions()
        self._last: Job | None = None
        self._waiting: list[Task] = []
        self._busy = False
        self._start()

    def _start(self) -> None:
        self.process = process = Process(self.world, f"{self.machine.name}'s slurmctld")
        self._lua = lua51.LuaRuntime(
            encoding="latin-1", unpack_returned_tuples=True, register_eval=False
        )
        net = _Network(process, self.machine)
        host = _Host(process, self.machine)
        lua = self._lua
        load = lua.eval("function(text) return assert(loadstring(text)) end")
        self._submit, load_filter = load(_PRELUDE)(
            lua.table_from(net.functions()), lua.table_from(host.functions()), _JSON, "/etc/conf"
        )
        load_filter(self.source)
        self._allowed: Any = None
        self._empty = lua.table_from({})

    def changed(self) -> None:
        """A partition is another one now."""
        self._allowed = None

    def submit(self, world: World) -> None:
        job = slurm_job(world.random, self.ledger.name())
        if self._last is not None and world.random.random() < 0.2:
            job = replace(self._last, name=job.name)  # a loop around sbatch
        self._last = job
        world.spawn(self.process, lambda: self._handle(job))

    def _crash(self) -> None:
        """The process dies and is started again."""
        self.process.kill()
        self._busy = False
        self._start()

    def _handle(self, job: Job) -> None:
        """Take a job once all that came before it are decided."""
        world, process = self.world, self.process
        self.ledger.attempts += 1
        if world.faults.at("scheduler.request") is not None:
            return
        while self._busy:
            task = world.current()
            assert task is not None
            self._waiting.append(task)
            world.wait(None)
        self._busy = True
        try:
            self._decide(job)
        finally:
            if process is self.process:
                self._busy = False
                if self._waiting:
                    world.wake(self._waiting.pop(0))

    def _save(self, job: Job, changed: dict[str, Any], process: Process, *, off: bool) -> None:
        """Accept a decided job; ``off``: the kill switch was thrown when it came."""
        world = self.world
        if off and self.machine.switched_off and changed:
            world.violate(f"{job.name} was changed while the kill switch was thrown")
        kind = world.faults.at("scheduler.save")
        if kind == "die":
            self._crash()
            process.check()
        self.ledger.accept(job, changed, self.machine)
        if kind == "dieafter":
            self._crash()
            process.check()
        if world.faults.at("scheduler.reply") is None:
            self.ledger.confirm(job)

    def _decide(self, job: Job) -> None:
        world, process, machine = self.world, self.process, self.machine
        lua = self._lua
        if self._allowed is None:
            self._allowed = lua.table_from(
                {name: lua.table_from(part) for name, part in self.parts.items()}
            )
        begun_s, off = world.now_s, machine.switched_off
        parts = {name: part["state_up"] for name, part in self.parts.items()}
        fields = lua.table_from(job.fields)
        environment = lua.table_from(job.environment) if job.environment else self._empty
        code, found = self._submit(fields, environment, self._allowed)
        process.check()
        changed = dict(found)
        job.took_s = world.now_s - begun_s
        if job.took_s > DEADLINE_S + 1e-3 + net_slow(world):
            world.violate(f"{job.name} waited {job.took_s:.3f} s for Berth")
        if code != 0:
            world.violate(f"the filter rejects {job.name}: {code}")
        self._check(job, changed, parts)
        self._save(job, changed, process, off=off)

    def _check(self, job: Job, changed: dict[str, Any], states: dict[str, int]) -> None:
        """What must hold of each job, whatever has failed."""
        world, before = self.world, job.fields
        now = {**before, **{k: v for k, v in changed.items() if v is not False}}
        for key, value in changed.items():
            if value is False:
                now.pop(key, None)
        edits = {key for key in changed if key != "admin_comment"}
        if self._accepts(before, states) and not self._accepts(now, states):
            world.violate(f"{job.name} would be refused because of Berth: {changed}")
        stamp = changed.get("admin_comment")
        said = parse_stamp(stamp) if stamp else None
        if stamp and (said is None or "id" not in said):
            world.violate(f"{job.name} has a stamp that says nothing: {stamp}")
        if job.opted_out and changed:
            world.violate(f"{job.name} opted out and was changed: {changed}")
        if edits and (said is None or said.get("action") != "edit"):
            world.violate(f"{job.name} was edited without a stamp of it: {changed}")
        if said is not None and said.get("action") == "edit":
            if not edits:
                world.violate(f"{job.name} has the stamp of an edit and is as it was")
            self._check_was(job, edits, said.get("was", ""))
            if before.get("partition") not in (None, "auto"):
                world.violate(f"{job.name} chose its partition and was moved: {changed}")
            if not set((now.get("partition") or "").split(",")) <= {"cpu", "gpu"}:
                world.violate(f"{job.name} was sent to {now.get('partition')}")

    def _check_was(self, job: Job, edits: set[str], text: str) -> None:
        """The stamp says what each edited field was."""
        problem = problem_of_was(text, job.fields, edits)
        if problem is not None:
            self.world.violate(f"{job.name}: {problem}")

    def _accepts(self, fields: dict[str, Any], states: dict[str, int]) -> bool:
        for name in (fields.get("partition") or "cpu").split(","):
            part = self.parts.get(name)
            if part is None or states[name] != UP or name == "closed":
                return False
            if (fields.get("time_limit") or 0) > part["max_time"]:
                return False
            nodes = fields.get("min_nodes") or 1
            if nodes > part["total_nodes"]:
                return False
            cores = (fields.get("num_tasks") or 1) * (fields.get("cpus_per_task") or 1)
            if cores > part["total_cpus"]:
                return False
            if fields.get("gres") and name != "gpu":
                return False
        return True


def net_slow(world: World) -> float:
    """Connecting may be slow by a fault: Unix sockets have no timeout for it."""
    return 0.031 if world.faults.on else 0.0


class _Network:
    """The filter's sockets."""

    def __init__(self, process: Process, machine: Machine) -> None:
        self._process, self._machine = process, machine
        self._world = process.world

    def functions(self) -> dict[str, Any]:
        return {
            "new": lambda: Client(self._process, self._machine),
            "connect": self._connect,
            "send": self._send,
            "receive": self._receive,
            "close": lambda client: client.close(),
        }

    def _connect(self, client: Client, path: str, patience_s: float) -> Any:
        try:
            client.connect(path)
        except OSError as error:
            return None, str(error.strerror)
        return True, None

    def _send(self, client: Client, data: str, patience_s: float) -> Any:
        raw = data.encode("latin-1")
        try:
            count = client.send(raw)
        except BlockingIOError:
            return 0, "timeout"
        except OSError:
            return 0, "closed"
        return (count, None) if count == len(raw) else (count, "timeout")

    def _receive(self, client: Client, count: float, patience_s: float) -> Any:
        self._process.check()
        count = int(count)
        if patience_s <= 0 and count == 1:  # looks whether a kept connection still stands
            try:
                part = client.take(1)
            except BlockingIOError:
                return None, "timeout", ""
            return (part.decode("latin-1"), None, None) if part else (None, "closed", "")
        kind = self._world.faults.at("slurm.receive")
        if kind == "closed":
            return None, "closed", ""
        if kind == "slow":
            self._world.sleep(min(patience_s, 0.03))
        if patience_s > 0 and not client.wait(patience_s):
            return None, "timeout", ""
        try:
            part = client.take(1 if kind == "short" and count > 1 else count)
        except BlockingIOError:
            return None, "timeout", ""
        if kind == "garbage" and part:
            assert client.end is not None
            part += bytes(client.end.inbox)
            client.end.inbox.clear()
            part = garbled(part, self._world.random)
            if count == 1:
                client.end.inbox += part[1:]
                part = part[:1]
        if not part:
            return None, "closed", ""
        if len(part) < count:
            return None, "timeout", part.decode("latin-1")
        return part.decode("latin-1"), None, None


class _Host:
    """The filter's clock and files."""

    def __init__(self, process: Process, machine: Machine) -> None:
        self._process, self._machine = process, machine
        self._faults = process.world.faults

    def functions(self) -> dict[str, Any]:
        return {"time": self._time, "open": self._open, "broken": self._broken}

    def _time(self) -> float:
        return EPOCH_S + self._process.world.now_s + self._machine.clock_offset_s

    def _open(self, path: str) -> Any:
        self._process.check()
        if path != SWITCH:
            kind = self._faults.at("slurm.config")
            if kind == "fail":
                return None, "Permission denied", errno.EACCES
            return (_CONFIG if kind is None else "deadline_ms = never\nx\n= 5\n"), None, None
        if self._faults.at("slurm.switch") is not None:
            return None, "Permission denied", errno.EACCES
        if self._machine.switched_off:
            return "", None, None
        return None, "No such file or directory", errno.ENOENT

    def _broken(self) -> bool:
        return self._faults.at("slurm.field") is not None


__all__ = ["DOWN", "UP", "USERS", "Slurmctld"]
