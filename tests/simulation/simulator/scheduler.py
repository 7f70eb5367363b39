"""What a scheduler is to Berth: a process that takes one submission after another, and may die."""

from __future__ import annotations

from typing import Any

from simulator.jobs import Job, Ledger
from simulator.machine import Machine
from simulator.world import Process, Task


class Scheduler:
    """One process with Berth's code in it, which decides about one job at a time."""

    process: Process

    def __init__(self, machine: Machine, ledger: Ledger) -> None:
        self.machine, self.world, self.ledger = machine, machine.world, ledger
        self._waiting: list[Task] = []
        self._busy = False
        self._start()

    def _start(self) -> None:
        """Load Berth's code into a new ``process``."""
        raise NotImplementedError

    def _decide(self, job: Job) -> None:
        """Ask Berth's code about a job, check what it did, and ``_save`` the job."""
        raise NotImplementedError

    def crash(self) -> None:
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
            self.crash()
            process.check()
        self.ledger.accept(job, changed, self.machine)
        if kind == "dieafter":
            self.crash()
            process.check()
        if world.faults.at("scheduler.reply") is None:
            self.ledger.confirm(job)
