"""A GPU node that is cut again and again: applies that fail, die and are resumed, beside jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.pilot.errors import BerthError, SchedulerError
from berth.plugin.host import Host
from berth.plugin.mig.apply import Applier
from berth.plugin.mig.errors import Busy, Locked, NvmlFailure, PlanRefused, RolledBack, Unfinished
from berth.plugin.mig.inventory import ComputeInstance, Fleet, GpuRecord, InstanceRecord
from berth.plugin.mig.journal import ApplyJournal
from berth.plugin.mig.target import ApplyTarget
from berth.policies.mig import GpuInstance, Layout, lookup
from simulator.disk import Disk, SimFiles
from simulator.machine import Machine
from simulator.network import SimNetwork
from simulator.world import Process, SimClock, SimThreads, World

FOLDER = Path("/var/lib/berth-mig")
UUID = "GPU-0"
_LAYOUTS = (
    "1g.5gb@0 1g.5gb@1 2g.10gb@2 3g.20gb@4",
    "1g.5gb@0 1g.5gb@1 1g.5gb@2 1g.5gb@3 3g.20gb@4",
    "3g.20gb@0 3g.20gb@4",
    "7g.40gb@0",
    "-",
    "2g.10gb@0 2g.10gb@2 1g.5gb@4 1g.5gb@5",
)
LAYOUTS = tuple(Layout.parse(text) for text in _LAYOUTS)


class Gpu:
    """The hardware: its instances, and the processes on them."""

    def __init__(self) -> None:
        self.instances: dict[GpuInstance, InstanceRecord] = {}
        self.pids: dict[GpuInstance, int] = {}
        self.given: set[GpuInstance] = set()
        """By the scheduler to jobs, whether or not these run a process yet."""
        self.drained: str | None = None
        self.published: str | None = None
        self.number = 0

    @property
    def layout(self) -> Layout:
        return Layout.of(*self.instances)


GEOMETRY = lookup("A100-SXM4-40GB")


class Driver:
    """As ``plugin.mig.nvml.Nvml``, for one process."""

    def __init__(self, process: Process, gpu: Gpu) -> None:
        self._process, self._gpu, self._world = process, gpu, process.world

    def _met(self, call: str) -> str | None:
        self._process.check()
        kind = self._world.faults.at(f"driver.{call}")
        if kind == "die":
            self._process.die()
        if kind == "fail":
            raise NvmlFailure(f"NVML refused {call}", 999)
        self._world.sleep(0.001)
        return kind

    def read(self) -> Fleet:
        self._met("read")
        gpu = self._gpu
        found = tuple(
            InstanceRecord(
                i, r.gi_id, r.profile_id, r.compute, whole=True,
                pids=(gpu.pids[i],) if i in gpu.pids else (),
            )
            for i, r in sorted(gpu.instances.items())
        )  # fmt: skip
        return (GpuRecord(UUID, 0, 0, "NVIDIA A100-SXM4-40GB", True, True, False, GEOMETRY, found),)

    def pids(self, _uuid: str, record: InstanceRecord) -> tuple[int, ...]:
        self._met("pids")
        pid = self._gpu.pids.get(record.instance)
        return () if pid is None else (pid,)

    def destroy(self, _uuid: str, record: InstanceRecord) -> None:
        kind = self._met("destroy")
        gpu = self._gpu
        if record.instance in gpu.pids:
            raise NvmlFailure("in use by another client", 19)
        if record.instance in gpu.given:
            self._world.violate(f"{record.instance} was destroyed though a job has it")
        if kind == "ignored":
            return
        gpu.instances.pop(record.instance, None)
        self._after(kind, "destroy")

    def create(
        self, _uuid: str, instance: GpuInstance, compute: tuple[ComputeInstance, ...] | None = None
    ) -> None:
        kind = self._met("create")
        gpu = self._gpu
        if gpu.layout.plus(instance).problem(GEOMETRY) is not None:
            raise NvmlFailure("no resources", 23)
        if kind == "ignored":
            return
        gpu.number += 1
        part = ComputeInstance(0, 1, 0)
        gpu.instances[instance] = InstanceRecord(instance, gpu.number, 0, (part,), whole=True)
        self._after(kind, "create")

    def _after(self, kind: str | None, call: str) -> None:
        if kind == "dieafter":
            self._process.die()
        if kind == "lost":
            raise NvmlFailure(f"the answer to {call} is lost", 999)


class SimKeeper:
    """As ``plugin.mig.keeper.Keeper``."""

    def __init__(self, process: Process, gpu: Gpu) -> None:
        self._process, self._gpu, self._world = process, gpu, process.world

    def _begin(self, call: str) -> str | None:
        self._process.check()
        kind = self._world.faults.at(f"keeper.{call}")
        if kind == "die":
            self._process.die()
        if kind == "fail":
            raise SchedulerError(f"the scheduler fails to {call}")
        self._world.sleep(0.005)
        return kind

    def _end(self, kind: str | None, call: str) -> None:
        if kind == "dieafter":
            self._process.die()
        if kind == "lost":
            raise SchedulerError(f"the scheduler's answer to {call} is lost")

    def allocated(self, fleet: Fleet) -> frozenset[tuple[str, GpuInstance]]:
        kind = self._begin("allocated")
        found = frozenset((UUID, instance) for instance in self._gpu.given)
        self._end(kind, "allocated")
        return found

    def prepare(self, fleet: Fleet, target: Mapping[str, Layout]) -> dict[str, Any]:
        kind = self._begin("prepare")
        self._end(kind, "prepare")
        return {"old": str(fleet[0].layout), "new": str(target[UUID])}

    def drain(self, reason: str) -> None:
        kind = self._begin("drain")
        if self._gpu.drained is None:
            self._gpu.drained = reason
        self._end(kind, "drain")

    def publish(self, part: Any, fleet: Fleet) -> None:
        kind = self._begin("publish")
        if part != str(self._gpu.layout):
            self._world.violate(f"the scheduler knows of {part}, there is {self._gpu.layout}")
        self._gpu.published = part
        self._end(kind, "publish")

    def release(self, reason: str) -> None:
        kind = self._begin("release")
        if self._gpu.drained == reason:
            self._gpu.drained = None
        self._end(kind, "release")


class Node:
    """The node: one applier after another, and jobs that come and go."""

    def __init__(self, world: World, machine: Machine) -> None:
        self.world, self.machine = world, machine
        self.disk = Disk()
        self.gpu = Gpu()
        self._ends: tuple[Layout, ...] | None = None
        """How it may stand once what is unfinished has ended; None: not known."""
        self.applies = 0
        self.outcomes: dict[str, int] = {}
        self._pid = 1_000

    def run(self) -> None:
        """Cut now and then, as long as there are faults."""
        world = self.world
        while world.faults.on:
            world.sleep(world.random.expovariate(0.7))
            if world.random.random() < 0.05:
                self._power_loss()
            if self._unfinished() and world.random.random() < 0.7:
                self._apply(None)
            else:
                self._apply(world.random.choice(LAYOUTS))

    def jobs(self) -> None:
        """A job begins or ends on a slice."""
        world, gpu = self.world, self.gpu
        while world.faults.on:
            world.sleep(world.random.expovariate(1.5))
            if gpu.drained is None and gpu.instances and world.random.random() < 0.4:
                instance = world.random.choice(sorted(gpu.instances))
                gpu.given.add(instance)
                if world.random.random() < 0.7:
                    self._pid += 1
                    gpu.pids[instance] = self._pid
            elif gpu.given:
                instance = world.random.choice(sorted(gpu.given))
                gpu.given.discard(instance)
                gpu.pids.pop(instance, None)

    def _power_loss(self) -> None:
        """The driver has no instances then, and jobs are gone."""
        self.world.faults.met("weather.power", "cut")
        self.disk.power_cut()
        self.gpu.instances.clear()
        self.gpu.pids.clear()
        self.gpu.given.clear()
        if self.gpu.drained is None and not self._unfinished():
            self.gpu.published = None

    def _unfinished(self) -> bool:
        process = Process(self.world, "looks")
        was, self.world.faults.on = self.world.faults.on, False
        try:
            return bool(ApplyJournal(FOLDER, host=self._host(process)).unfinished())
        finally:
            self.world.faults.on = was

    def _host(self, process: Process) -> Host:
        return Host(
            clock=SimClock(process, self.machine), files=SimFiles(process, self.disk),
            threads=SimThreads(process), network=SimNetwork(process, self.machine), pid=lambda: 1,
        )  # fmt: skip

    def _apply(self, layout: Layout | None) -> None:
        """One apply (None: a resume) in a process of its own, waited for."""
        world, gpu = self.world, self.gpu
        process = Process(world, "berth mig apply")
        done: list[str] = []
        resting = gpu.drained is None and not self._unfinished()
        before = gpu.layout
        # An apply first brings an unfinished one to its end.
        may_be = (before,) if resting else (before, *(self._ends or LAYOUTS))
        if layout is not None:
            self._ends = (before, layout) if resting else None

        def main() -> None:
            applier = Applier(
                Driver(process, gpu),
                SimKeeper(process, gpu),
                FOLDER,
                host=self._host(process),  # type: ignore[arg-type]
            )
            try:
                if layout is None:
                    report = applier.resume()
                else:
                    report = applier.apply(ApplyTarget({"0": layout}))
            except (RolledBack, Busy, PlanRefused, Unfinished, Locked) as error:
                done.append(type(error).__name__)
            except BerthError as error:
                done.append("BerthError")
                if gpu.layout not in may_be:
                    world.violate(f"an apply ended with {error!r} and another layout")
            else:
                done.append(report.outcome)

        task = world.spawn(process, main)
        me = world.current()
        assert me is not None
        while task.alive:
            task.waiters.append(me)
            world.wait(None)
        self.applies += 1
        outcome = done[0] if done else "killed"
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        process.kill()
        if outcome in ("new", "RolledBack") and layout is not None:
            self._settled(outcome, layout)
        if resting and outcome in ("RolledBack", "Busy", "PlanRefused") and gpu.layout != before:
            world.violate(f"{outcome}: it was {before} before and is {gpu.layout}")
        resumed = layout is None and outcome in ("new", "old")
        if resumed and self._ends is not None and gpu.layout not in self._ends:
            world.violate(f"resumed to {gpu.layout}, which is none of {self._ends}")

    def _settled(self, outcome: str, layout: Layout) -> None:
        """After an apply that says how it stands."""
        gpu, world = self.gpu, self.world
        if gpu.drained is not None:
            world.violate(f"{outcome}, and the node is still drained")
        if outcome == "new" and gpu.layout != layout:
            world.violate(f"the new layout was to be {layout}, it is {gpu.layout}")
        if gpu.published not in (None, str(gpu.layout)):
            world.violate(f"the scheduler knows {gpu.published}, there is {gpu.layout}")

    def finish(self) -> None:
        """Without faults: what was begun is brought to its end."""
        gpu, world = self.gpu, self.world
        gpu.pids.clear()
        gpu.given.clear()
        for _ in range(2):
            self._apply(None)
        if self._unfinished() or gpu.drained is not None:
            world.violate(f"an apply is left unfinished: {self.outcomes}")
        if gpu.published not in (None, str(gpu.layout)):
            world.violate(f"the scheduler knows {gpu.published}, there is {gpu.layout}")
