"""``berth pilot run``: measure one program and return the results as a Profile.

The native runs come first (time, memory, /proc, control groups, GPUs), then one run under perf
where the machine has hardware counters, then emulated runs with a time limit. If a stage fails,
the results of the other stages are kept and the Profile's warnings say what failed.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from berth.pilot.assemble import Extra, assemble
from berth.pilot.collectors.base import Collector, Stage
from berth.pilot.collectors.proc import peak_memory
from berth.pilot.collectors.registry import collector_of, names_of
from berth.pilot.collectors.valgrind import CUT_GRACE_S
from berth.pilot.emulate import emulate
from berth.pilot.launch import Order, ProcessResult, run_one
from berth.pilot.native import Native, repeats_for, run_native
from berth.pilot.options import PilotOptions, Plan, make_plan
from berth.pilot.private_folder import PrivateFolders, why_not
from berth.pilot.profile import CollectorReport, Profile, Runtime, ScalingPoint, SizePoint
from berth.pilot.progress import Say, clocked, say_nothing
from berth.pilot.runs_on import is_rank, ranks_of

EMULATION_FLOOR_S = 5.0
"""Smallest limit of the emulated runs, in seconds of processor time, also of short programs:
valgrind takes a second to start."""
WHOLE_FLOOR_S = 10.0
"""Smallest limit of the emulated run, in seconds of processor time, of programs that are so short
that caches are simulated throughout."""
SETTLE_SLOWDOWN = 3.0
"""An emulated run whose counts have settled may end after this many times the native processor
time: about half of most programs has then run, a third of those that valgrind slows down most."""
ONE_PROCESS = 0.9
"""Only if one process has this share of the native processor time: where several share it, one that
has settled does not stand for the next."""
SAMPLED_S = 0.25
"""For programs with more processor time than this, caches are simulated in a part of the run only.
"""
SLOWDOWN = 5.0
"""Typical emulated time / native processor time; used only to show the remaining time."""
TOOL_START_S = 2.0
SHOWN_OUTPUT_BYTES = 1 << 20
ONE_THREAD_S = 60.0
"""Programs with more processor time than this get no extra run on one thread."""
ONE_BUSY = 1.1
"""Largest processor time / wall time at which a run counts as a run on one thread."""
SHORT_S = 2.0
"""The run on one thread is repeated only if the program's median wall time is at most this."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run_pilot(options: PilotOptions, say: Say = say_nothing) -> Profile:
    """Measure a program and return its Profile; ``say`` is called with the progress.

    Raises:
        UsageError: the command cannot be run, or the options contradict each other.
        PilotError: nothing could be measured.
    """
    plan = make_plan(options)
    with tempfile.TemporaryDirectory(prefix="berth-pilot-") as folder:
        return _Pilot(plan, say, Path(folder)).go()


class _Pilot:
    """The stages of one pilot, and the results so far."""

    def __init__(self, plan: Plan, say: Say, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._options = plan.options
        self._say = say
        self._end = time.monotonic() + plan.options.time_limit_s
        self._extra = Extra()
        self._folders: PrivateFolders | None = None
        # Ranks of a parallel launch work in the user's folder, because they share files there.
        if not plan.options.in_place and not is_rank(plan.options.env):
            folder_here = Path.cwd()
            why = why_not(folder_here)
            if why is None:
                self._folders = PrivateFolders(folder_here)
            else:
                self._extra.warnings.append(
                    f"the working folder could not be copied ({why}): the program ran in it "
                    "several times, and its files there are of the last run"
                )

    def _order(self, size: float | None) -> Order:
        return replace(self._plan.order(size), folders=self._folders)

    def go(self) -> Profile:
        attached = self._collectors(Stage.NATIVE)
        order = self._order(self._plan.main)
        shown = SHOWN_OUTPUT_BYTES if self._options.show_output else 0
        native = self._native(replace(order, forward_bytes=shown), attached, self._say)
        self._extra.gpus_used = native.gpus_used
        if native.runtime is not None and not native.interrupted:
            try:
                self._own_runs(native.runtime)
                self._sizes(native)
                self._threads(native.runtime)
                self._one_thread(native.runtime, native.first)
                self._emulated(native.first)
            except KeyboardInterrupt:
                self._extra.interrupted = True
        if self._folders is not None and (sentence := self._folders.sentence()) is not None:
            self._extra.warnings.append(sentence)
        return assemble(self._plan, native, self._extra)

    def _collectors(self, stage: Stage) -> list[Collector]:
        names = [name for name in names_of(stage) if self._wants(name)]
        return [collector_of(name, self._folder) for name in names]

    def _wants(self, collector: str) -> bool:
        if collector in self._options.collectors:
            return True
        self._report(collector, "skipped", "not asked for")
        return False

    def _report(self, name: str, status: str, detail: str) -> None:
        self._extra.reports.append(CollectorReport(name=name, status=status, detail=detail))

    def _left_s(self) -> float:
        return max(0.1, self._end - time.monotonic())

    def _native(
        self, order: Order, collectors: list[Collector], say: Say, repeats: int | None = None
    ) -> Native:
        wanted = self._options.repeats if repeats is None else repeats
        return run_native(order, collectors, repeats=wanted, left_s=self._left_s, say=say)

    def _quietly(self, order: Order, repeats: int | None = None) -> Native:
        """Run the program natively at another size or number of threads, without collectors."""
        return self._native(order, [], say_nothing, repeats)

    def _own_runs(self, runtime: Runtime) -> None:
        for collector in self._collectors(Stage.OWN_RUN):
            why = collector.probe()
            if why is None:
                self._own_run(collector, runtime)
            else:
                self._report(collector.name, "absent", why)

    def _own_run(self, collector: Collector, runtime: Runtime) -> None:
        order = replace(self._order(self._plan.main), sample=False)
        order = collector.prepare(replace(order, time_limit_s=self._left_s()))
        with clocked(self._say, f"a run for {collector.name}", runtime.median_s):
            outcome = run_one(order, watch=collector.watch)
        readings = collector.finish(outcome)
        if outcome.succeeded and not readings.failed:
            for name, measurement in readings.counters.items():
                self._extra.counters.setdefault(name, measurement)
            self._report(collector.name, "used", readings.detail)
        else:
            ended = "" if outcome.succeeded else f"; the run {outcome.describe()}"
            self._report(collector.name, "failed", readings.detail + ended)

    def _sizes(self, native: Native) -> None:
        points: list[SizePoint] = []
        for size in self._plan.sizes:
            runs = native
            if size != self._plan.main:
                self._say(f"size {size:g}", len(points), len(self._plan.sizes))
                runs = self._quietly(self._order(size))
            memory = peak_memory(runs.first)
            if runs.runtime is None:
                self._extra.warnings.append(f"size {size:g}: the program {runs.first.describe()}")
            elif memory is not None:
                time_s = runs.runtime.median_s
                points.append(
                    SizePoint(
                        size=size,
                        runtime_s=time_s,
                        peak_memory_bytes=memory.bytes,
                        peak_memory_is_bound=memory.is_bound or None,
                    )
                )
        self._extra.sizes = tuple(points)

    def _threads(self, runtime: Runtime) -> None:
        points = []
        for threads in self._options.threads_sweep:
            each_s = runtime.median_s * repeats_for(runtime.median_s, self._options.repeats)
            with clocked(self._say, f"{threads} threads", each_s):
                runs = self._quietly(self._with_threads(threads))
            if runs.runtime is None:
                self._extra.warnings.append(
                    f"{threads} threads: the program {runs.first.describe()}"
                )
                continue
            points.append(ScalingPoint(threads=threads, runtime_s=runs.runtime.median_s))
        self._extra.scaling = tuple(points)

    def _one_thread(self, runtime: Runtime, first: ProcessResult) -> None:
        """Time a multi-threaded program on one thread, to learn how well its threads scale.

        Processor time does not show this where waiting threads spin. The result is kept only if
        the program obeyed ``THREAD_VARIABLES`` and computed on one thread.
        """
        cheap = first.cpu_s <= min(ONE_THREAD_S, self._left_s() / 4)
        if self._options.threads_sweep or is_rank(self._options.env) or not cheap:
            return
        if first.threads_busy < 2 or ranks_of(self._plan.order(None).command, {}) > 1:
            return
        repeats = self._options.repeats if runtime.median_s <= SHORT_S else 1
        with clocked(self._say, "on one thread", repeats * first.cpu_s):
            runs = self._quietly(self._with_threads(1), repeats)
        alone = runs.first.threads_busy == 1 and runs.first.cpu_s <= ONE_BUSY * runs.first.wall_s
        # More than so much slower it is only on a busy machine.
        most_s = ONE_BUSY * first.threads_busy * runtime.median_s
        if runs.runtime is not None and alone and runs.runtime.median_s <= most_s:
            self._extra.one_thread_s = runs.runtime.median_s

    def _with_threads(self, threads: int) -> Order:
        order = self._order(self._plan.main)
        return replace(
            order, env={**order.env, **{name: str(threads) for name in THREAD_VARIABLES}}
        )

    def _emulated(self, first: ProcessResult) -> None:
        tools = [tool for tool in names_of(Stage.EMULATED) if self._wants(tool)]
        if not tools:
            return
        if time.monotonic() >= self._end:
            self._extra.warnings.append("the time limit left nothing for the emulated run")
            return
        sampled = first.cpu_s > SAMPLED_S
        floor_s = EMULATION_FLOOR_S if sampled else WHOLE_FLOOR_S
        budget = max(floor_s, self._options.max_slowdown * first.cpu_s)
        budget = min(budget, self._options.count_limit_s)
        alone = first.busiest_process_s >= ONE_PROCESS * first.cpu_s
        # On a busy machine a run takes longer than its processor time.
        stretch = max(1.0, first.wall_s * first.threads_busy / max(first.cpu_s, 1e-9))
        order = replace(
            self._order(self._plan.main),
            sampled=sampled,
            cut_grace_s=min(stretch * CUT_GRACE_S, self._left_s()),
            settle_after_s=SETTLE_SLOWDOWN * first.cpu_s if alone else None,
            time_limit_s=self._left_s(),
        )
        usual_s = stretch * min(budget, TOOL_START_S + SLOWDOWN * first.cpu_s)
        activity = f"counting, at most {budget:.0f} s of processor time"
        with clocked(self._say, activity, usual_s, min(stretch * budget, self._left_s())):
            emulation = emulate(
                order, tools=tools, budget_s=budget, once=is_rank(self._options.env)
            )
        for name, measurement in emulation.counters.items():
            present = self._extra.counters.get(name)
            if present is None or present.value is None:
                self._extra.counters[name] = measurement
        self._extra.reports += emulation.reports
        self._extra.warnings += emulation.warnings
        self._extra.executed = emulation.executed
        self._extra.interrupted |= emulation.interrupted
