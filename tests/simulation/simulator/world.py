"""Simulated time, processes and threads: greenlets that run one at a time, in the seed's order."""

from __future__ import annotations

import heapq
import math
import traceback
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from greenlet import getcurrent, greenlet

from berth.plugin.host import HostThreads
from simulator.faults import Dead, Faults, Violation

EPOCH_S = 1_800_000_000.0


class Task:
    """A thread of a process."""

    __slots__ = ("alive", "greenlet", "process", "token", "waiters")

    def __init__(self, process: Process) -> None:
        self.process = process
        self.token = 0
        self.alive = True
        self.waiters: list[Task] = []
        self.greenlet: Any = None


class Process:
    """What dies as a whole: its threads, its sockets, its open files."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.dead = False
        self.at_end: list[Callable[[], None]] = []
        """What its host does when it ends."""
        self.tasks: list[Task] = []

    def check(self) -> None:
        """Raises Dead where it was killed: nothing that it does counts any more."""
        if self.dead:
            raise Dead

    def kill(self) -> None:
        """At once and without any last word."""
        if self.dead:
            return
        self.dead = True
        for end in self.at_end:
            end()
        for task in self.tasks:
            if task.alive:
                self.world.wake(task)

    def die(self) -> None:
        """Kill it from within one of its own calls."""
        self.kill()
        raise Dead


class World:
    """One run: everything in it follows from ``seed``."""

    def __init__(self, seed: int, focus: Mapping[str, str] | None = None) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.faults = Faults(Random(seed + 1), focus)
        self.now_s = 0.0
        self.violations: list[str] = []
        self.steps = 0
        self._queue: list[tuple[float, float, int, Task, int, bool]] = []
        self._number = 0
        self._tasks: dict[Any, Task] = {}
        self._hub = getcurrent()

    # Tasks

    def spawn(self, process: Process, run: Callable[[], None], delay_s: float = 0.0) -> Task:
        """Begin a thread of a process."""
        task = Task(process)
        task.greenlet = greenlet(lambda *_: self._run(task, run), self._hub)
        self._tasks[task.greenlet] = task
        process.tasks.append(task)
        self._push(self.now_s + delay_s, task, False)
        return task

    def _run(self, task: Task, run: Callable[[], None]) -> None:
        try:
            if not task.process.dead:
                run()
        except Dead:
            pass
        except Violation as problem:
            self.violate(str(problem))
        except BaseException:
            self.violate(f"{task.process.name}: a thread ended:\n{traceback.format_exc()}")
        finally:
            task.alive = False
            del self._tasks[task.greenlet]
            task.process.tasks.remove(task)
            for one in task.waiters:
                self.wake(one)

    def current(self) -> Task | None:
        """The thread that runs now; None: the simulation itself."""
        return self._tasks.get(getcurrent())

    def wait(self, timeout_s: float | None) -> bool:
        """Let others run until ``wake`` (True) or until the time is over (False)."""
        task = self._tasks[getcurrent()]
        if task.process.dead:
            raise Dead
        task.token += 1
        if timeout_s is not None:
            self._push(self.now_s + max(0.0, timeout_s), task, False)
        woken = bool(self._hub.switch())
        if task.process.dead:
            raise Dead
        return woken

    def sleep(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.wait(end_s - self.now_s)

    def wake(self, task: Task) -> None:
        """End its ``wait``, or the next one that it begins now."""
        self._push(self.now_s, task, True)

    def _push(self, at_s: float, task: Task, woken: bool) -> None:
        self._number += 1
        heapq.heappush(
            self._queue, (at_s, self.random.random(), self._number, task, task.token, woken)
        )

    def run(self, until_s: float = math.inf, until: Callable[[], bool] | None = None) -> None:
        """Go on until a time or a condition, or until there is nothing to be done."""
        queue = self._queue
        while queue and queue[0][0] <= until_s and not self.violations:
            at_s, _, _, task, token, woken = heapq.heappop(queue)
            if token != task.token or not task.alive:
                continue
            self.now_s = max(self.now_s, at_s)
            self.steps += 1
            task.token += 1
            task.greenlet.switch(woken)
            if until is not None and until():
                return
        if until_s != math.inf and not self.violations:
            self.now_s = max(self.now_s, until_s)

    def violate(self, what: str) -> None:
        """Note what must never happen; the run ends."""
        self.violations.append(f"at {self.now_s:.3f} s: {what}")


class SimEvent:
    """As ``threading.Event``."""

    def __init__(self, process: Process) -> None:
        self._world, self._process = process.world, process
        self._set = False
        self._waiting: list[Task] = []

    def set(self) -> None:
        self._set = True
        for task in self._waiting:
            self._world.wake(task)
        self._waiting = []

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        self._process.check()
        if not self._set:
            task = self._world.current()
            assert task is not None
            self._waiting.append(task)
            self._world.wait(timeout)
            if task in self._waiting:
                self._waiting.remove(task)
        return self._set


class SimThread:
    """As ``threading.Thread``."""

    def __init__(self, process: Process, run: Callable[[], None]) -> None:
        self._process, self._run = process, run
        self._task: Task | None = None

    def start(self) -> None:
        self._task = self._process.world.spawn(self._process, self._run)

    def is_alive(self) -> bool:
        return self._task is not None and self._task.alive

    def join(self, timeout: float | None = None) -> None:
        world, task = self._process.world, self._task
        me = world.current()
        assert me is not None
        if task is not None and task.alive:
            task.waiters.append(me)
            world.wait(timeout)
            if me in task.waiters:
                task.waiters.remove(me)


class SimThreads(HostThreads):
    """As ``berth.plugin.host.HostThreads``."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def event(self) -> SimEvent:
        return SimEvent(self._process)

    def thread(self, name: str, run: Callable[[], None]) -> SimThread:
        return SimThread(self._process, run)


class SimClock:
    """As the module ``time``, on a machine whose wall clock may jump."""

    def __init__(self, process: Process, machine: Any) -> None:
        self._process, self._world, self._machine = process, process.world, machine

    def time(self) -> float:
        return EPOCH_S + self._world.now_s + self._machine.clock_offset_s

    def time_ns(self) -> int:
        return int(self.time() * 1e9)

    def monotonic(self) -> float:
        return 1_000.0 + self._world.now_s

    def perf_counter_ns(self) -> int:
        return int(self._world.now_s * 1e9)

    def sleep(self, seconds: float) -> None:
        self._process.check()
        self._world.sleep(seconds)
