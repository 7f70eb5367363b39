"""``berth pilot run``: measure one program and write down what it did, as a Profile.

The native runs come first (time, memory, /proc, control groups, GPUs), then one run under perf
where the machine has hardware counters, then the bounded emulated runs. Whatever goes wrong on
the way, what was measured until then is kept and the Profile says what happened.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from berth.pilot import host
from berth.pilot.assemble import Extra, assemble
from berth.pilot.collectors.base import Collector
from berth.pilot.collectors.cgroup import CgroupCollector
from berth.pilot.collectors.nvml import NvmlCollector
from berth.pilot.collectors.perf import PerfCollector
from berth.pilot.collectors.proc import ProcCollector, peak_memory
from berth.pilot.emulate import TOOLS, emulate
from berth.pilot.launch import Order, run_all
from berth.pilot.native import Native, Say, run_native
from berth.pilot.options import PilotOptions, Plan, make_plan
from berth.pilot.profile import CollectorReport, Profile, Runtime, ScalingPoint, SizePoint

EMULATION_FLOOR_S = 10.0
"""Emulation may take this long whatever the native time: starting valgrind takes a second."""
SHOWN_OUTPUT_BYTES = 1 << 20
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run_pilot(options: PilotOptions, say: Say = lambda _: None) -> Profile:
    """Measure the program. ``say`` hears what is going on.

    Raises:
        UsageError: the command cannot be run, or the options make no sense.
        PilotError: nothing could be measured.
    """
    return _Pilot(make_plan(options), say).go()


class _Pilot:
    """The stages of one pilot, and what they gave so far."""

    def __init__(self, plan: Plan, say: Say) -> None:
        self._plan = plan
        self._options = plan.options
        self._say = say
        self._end = time.monotonic() + plan.options.time_limit_s
        self._extra = Extra()

    def go(self) -> Profile:
        nvml = NvmlCollector()
        every: list[Collector] = [ProcCollector(), CgroupCollector(), nvml]
        attached = [collector for collector in every if self._wants(collector.name)]
        order = self._plan.order(self._plan.main)
        shown = SHOWN_OUTPUT_BYTES if self._options.show_output else 0
        native = self._native(replace(order, forward_bytes=shown), attached, self._say)
        self._extra.gpus_used = len(nvml.gpus_used)
        if native.runtime is not None and not native.interrupted:
            try:
                self._hardware()
                self._sizes(native)
                self._threads()
                self._emulated(native.runtime)
            except KeyboardInterrupt:
                self._extra.interrupted = True
        return assemble(self._plan, native, self._extra)

    def _wants(self, collector: str) -> bool:
        if collector in self._options.collectors:
            return True
        self._report(collector, "skipped", "not asked for")
        return False

    def _report(self, name: str, status: str, detail: str) -> None:
        self._extra.reports.append(CollectorReport(name=name, status=status, detail=detail))

    def _left_s(self) -> float:
        return max(0.1, self._end - time.monotonic())

    def _native(self, order: Order, collectors: list[Collector], say: Say) -> Native:
        repeats = self._options.repeats
        return run_native(order, collectors, repeats=repeats, left_s=self._left_s, say=say)

    def _quietly(self, order: Order) -> Native:
        """Native runs of a side measurement: nothing shown, nothing attached."""
        return self._native(replace(order, discard=True), [], lambda _: None)

    def _hardware(self) -> None:
        if not self._wants("perf"):
            return
        with tempfile.TemporaryDirectory(prefix="berth-perf-") as folder:
            perf = PerfCollector(Path(folder))
            why = perf.probe()
            if why is not None:
                self._report("perf", "absent", why)
                return
            self._say("hardware counters")
            order = replace(self._plan.order(self._plan.main), discard=True, sample=False)
            [outcome] = run_all([perf.prepare(replace(order, time_limit_s=self._left_s()))], jobs=1)
            readings = perf.finish(outcome)
        if outcome.succeeded and not readings.failed:
            self._extra.counters.update(readings.counters)
            self._report("perf", "used", readings.detail)
        else:
            ended = "" if outcome.succeeded else f"; the run {outcome.describe()}"
            self._report("perf", "failed", readings.detail + ended)

    def _sizes(self, native: Native) -> None:
        points = []
        for size in self._plan.sizes:
            found = native
            if size != self._plan.main:
                self._say(f"size {size:g}")
                found = self._quietly(self._plan.order(size))
            memory = peak_memory(found.first)
            if found.runtime is None:
                self._extra.warnings.append(f"size {size:g}: the program {found.first.describe()}")
            elif memory is not None:
                time_s = found.runtime.median_s
                points.append(
                    SizePoint(size=size, runtime_s=time_s, peak_memory_bytes=memory.bytes)
                )
        self._extra.sizes = tuple(points)

    def _threads(self) -> None:
        points = []
        for threads in self._options.threads_sweep:
            self._say(f"{threads} threads")
            order = self._plan.order(self._plan.main)
            env = {**order.env, **{name: str(threads) for name in THREAD_VARIABLES}}
            found = self._quietly(replace(order, env=env))
            if found.runtime is None:
                self._extra.warnings.append(
                    f"{threads} threads: the program {found.first.describe()}"
                )
                continue
            points.append(ScalingPoint(threads=threads, runtime_s=found.runtime.median_s))
        self._extra.scaling = tuple(points)

    def _emulated(self, runtime: Runtime) -> None:
        tools = [tool for tool in TOOLS if self._wants(tool)]
        if not tools:
            return
        if time.monotonic() >= self._end:
            self._extra.warnings.append("the time limit left nothing for the emulated run")
            return
        budget = max(EMULATION_FLOOR_S, self._options.max_slowdown * runtime.median_s)
        budget = min(budget, self._left_s())
        self._say(f"emulated run, at most {budget:.0f} s")
        order = replace(self._plan.order(self._plan.main), discard=True)
        found = emulate(order, tools=tools, budget_s=budget, jobs=host.cores())
        for name, measurement in found.counters.items():
            present = self._extra.counters.get(name)
            if present is None or present.value is None:
                self._extra.counters[name] = measurement
        self._extra.reports += found.reports
        self._extra.warnings += found.warnings
        self._extra.extensions = found.extensions
        self._extra.interrupted |= found.interrupted
