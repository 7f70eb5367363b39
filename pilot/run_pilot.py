"""``berth pilot run``: measure one program and return the results as a Profile.

The native runs come first (time, processor time, memory, I/O, GPUs; hardware counters where the
machine has them). With ``count`` one run under emulation follows, with a limit. If a stage fails,
the results of the other stages are kept and the Profile's warnings say what failed.

Every run is isolated: it begins with the files as they are, and what it writes is dropped (see
:mod:`berth.pilot.shepherd.isolation`). Where that is not possible, the program runs once, natively,
and what it writes stays; more often only if its user says so (``in_place``).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from berth.pilot.assemble import Extra, assemble
from berth.pilot.collectors.base import Collector, Stage
from berth.pilot.collectors.registry import collector_of, names_of
from berth.pilot.emulate import emulate
from berth.pilot.launch import Order, ProcessResult
from berth.pilot.native import SHORT_S, Native, repeats_for, run_native
from berth.pilot.options import PilotOptions, Plan, make_plan
from berth.pilot.profile import CollectorReport, Profile, Runtime, ScalingPoint, SizePoint
from berth.pilot.progress import Say, clocked, say_nothing
from berth.pilot.runs_on import container_of, is_rank, ranks_of

SLOWDOWN = 25.0
"""Typical emulated time / native processor time; used only to show the remaining time."""
TOOL_START_S = 2.0
SHOWN_OUTPUT_BYTES = 1 << 20
ONE_BUSY = 1.1
"""Largest processor time / wall time, a thread, at which a run counts as one on that many threads.
"""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
NAMED_FILES = 5

Tell = Callable[[str], None]
"""A function that shows a sentence before the pilot does something that its user should know."""


def tell_nothing(sentence: str) -> None:
    """Show nothing: the ``Tell`` of pilots without a front end."""


def run_pilot(options: PilotOptions, say: Say = say_nothing, tell: Tell = tell_nothing) -> Profile:
    """Measure a program and return its Profile.

    ``say`` is called with the progress, ``tell`` with a sentence before a run that writes for good
    and before counting.

    Raises:
        UsageError: the command cannot be run, or the options contradict each other.
        PilotError: nothing could be measured.
    """
    plan = make_plan(options)
    with tempfile.TemporaryDirectory(prefix="berth-pilot-") as folder:
        return _Pilot(plan, say, tell, Path(folder)).go()


class _Pilot:
    """The stages of one pilot, and the results so far."""

    def __init__(self, plan: Plan, say: Say, tell: Tell, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._options = plan.options
        self._say, self._tell = say, tell
        self._end = time.monotonic() + plan.options.time_limit_s
        self._extra = Extra()
        self._view: Path | None = None
        self._only_once = False
        """Whether what the program writes stays though its user has not said so."""
        self._left_out: list[str] = []
        for name in (*names_of(Stage.NATIVE), *names_of(Stage.EMULATED)):
            if name not in plan.options.collectors:
                self._report(name, "skipped", "not asked for")

    def go(self) -> Profile:
        order = self._order(self._plan.main)
        shown = SHOWN_OUTPUT_BYTES if self._options.show_output else 0
        native = self._first(replace(order, forward_bytes=shown))
        self._extra.gpus_used = native.gpus_used
        if native.runtime is not None and not native.interrupted:
            try:
                self._sizes(native)
                self._threads(native.runtime)
                self._one_thread(native)
                self._emulated(native.first)
            except KeyboardInterrupt:
                self._extra.interrupted = True
        if self._left_out:
            self._extra.warnings.append(
                f"left out, as the program ran where what it writes stays: "
                f"{', '.join(self._left_out)}; --in-place runs it that often"
            )
        return assemble(self._plan, native, self._extra)

    def _first(self, order: Order) -> Native:
        """Return the native runs: isolated if possible, else one run that writes for good."""
        options, command = self._options, order.command
        # Ranks of a parallel launch share files with each other; containers are started by others.
        apart = is_rank(order.env) or container_of(command) is not None
        if not options.in_place and not apart:
            self._view = self._folder / "view"
            self._view.mkdir()
            isolated = self._native(self._isolated(order), Stage.NATIVE)
            why = _no_view(isolated)
            if why is None:
                self._extra.warnings += _dropped(isolated.first)
                return isolated
            self._view = None
            again = "" if isolated.first.not_isolated else " more"
            self._tell(
                f"what the program writes cannot be kept apart ({why}): it runs once{again}, "
                "natively, and what it writes stays"
            )
        self._only_once = not options.in_place
        repeats = 1 if self._only_once else options.repeats
        if options.in_place:
            self._tell("--in-place: the program may run several times; what it writes stays")
        return self._native(order, Stage.NATIVE, repeats=repeats)

    def _order(self, size: float | None) -> Order:
        return self._isolated(self._plan.order(size))

    def _isolated(self, order: Order) -> Order:
        if self._view is None:
            return order
        return replace(order, isolated_in=str(self._view), kept=(str(self._folder),))

    def _may_run_again(self, what: str) -> bool:
        if self._only_once:
            self._left_out.append(what)
        return not self._only_once

    def _collectors(self, stage: Stage) -> list[Collector]:
        names = [name for name in names_of(stage) if name in self._options.collectors]
        return [collector_of(name, self._folder) for name in names]

    def _report(self, name: str, status: str, detail: str) -> None:
        self._extra.reports.append(CollectorReport(name=name, status=status, detail=detail))

    def _left_s(self) -> float:
        return max(0.1, self._end - time.monotonic())

    def _native(self, order: Order, stage: Stage | None, repeats: int | None = None) -> Native:
        wanted = self._options.repeats if repeats is None else repeats
        collectors = [] if stage is None else self._collectors(stage)
        say = say_nothing if stage is None else self._say
        return run_native(order, collectors, repeats=wanted, left_s=self._left_s, say=say)

    def _quietly(self, order: Order, repeats: int | None = None) -> Native:
        """Run the program natively at another size or number of threads, without counters."""
        return self._native(order, None, repeats)

    def _sizes(self, native: Native) -> None:
        points: list[SizePoint] = []
        others = [size for size in self._plan.sizes if size != self._plan.main]
        if others and not self._may_run_again("other sizes"):
            return
        for size in self._plan.sizes:
            runs = native
            if size != self._plan.main:
                self._say(f"size {size:g}", len(points), len(self._plan.sizes))
                runs = self._quietly(self._order(size))
            memory = runs.memory
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
        points: list[ScalingPoint] = []
        sweep = self._options.threads_sweep
        if sweep and not self._may_run_again("other numbers of threads"):
            return
        for threads in sweep:
            each_s = runtime.median_s * repeats_for(runtime.median_s, self._options.repeats)
            with clocked(self._say, f"{threads} threads", each_s):
                runs = self._quietly(self._with_threads(threads))
            if runs.runtime is None:
                self._extra.warnings.append(
                    f"{threads} threads: the program {runs.first.describe()}"
                )
            elif not _follows(runs.first, threads):
                self._extra.warnings.append(
                    f"{threads} threads: left out, it took more: it does not follow "
                    f"{THREAD_VARIABLES[0]}; pilot it with its own option"
                )
            else:
                points.append(ScalingPoint(threads=threads, runtime_s=runs.runtime.median_s))
        self._extra.scaling = tuple(points)

    def _one_thread(self, native: Native) -> None:
        """Time a short program of several threads on one thread, to learn how well they scale.

        Processor time does not show this where waiting threads spin. The result is kept only if
        the program obeyed ``THREAD_VARIABLES``.
        """
        first, runtime = native.first, native.runtime
        if runtime is None or first.threads_busy < 2 or first.cpu_s > SHORT_S:
            return
        if self._options.threads_sweep or is_rank(self._options.env) or self._only_once:
            return
        if first.cpu_s > self._left_s() / 4 or ranks_of(self._plan.order(None).command, {}) > 1:
            return
        with clocked(self._say, "on one thread", first.cpu_s):
            runs = self._quietly(self._with_threads(1), repeats=1)
        if runs.runtime is not None and _follows(runs.first, 1):
            # Slower than that it is only on a busy machine.
            most_s = first.threads_busy * runtime.median_s
            self._extra.one_thread_s = min(runs.runtime.median_s, most_s)

    def _with_threads(self, threads: int) -> Order:
        order = self._order(self._plan.main)
        return replace(
            order, env={**order.env, **{name: str(threads) for name in THREAD_VARIABLES}}
        )

    def _emulated(self, first: ProcessResult) -> None:
        options = self._options
        tools = [name for name in names_of(Stage.EMULATED) if name in options.collectors]
        if not options.count or not tools or not self._may_run_again("counting"):
            return
        if is_rank(options.env) or ranks_of(self._plan.order(None).command, options.env) > 1:
            self._extra.warnings.append("programs of several ranks are not counted by emulation")
            return
        if time.monotonic() >= self._end:
            self._extra.warnings.append("the time limit left nothing for the emulated run")
            return
        budget_s = options.count_limit_s
        usual_s = min(budget_s, TOOL_START_S + SLOWDOWN * first.cpu_s)
        self._tell(
            f"counting: one more run under emulation, about {usual_s:.0f} s of processor time, "
            f"at most {budget_s:.0f} s"
        )
        activity = f"counting, at most {budget_s:.0f} s of processor time"
        order = replace(self._order(self._plan.main), time_limit_s=self._left_s())
        with clocked(self._say, activity, usual_s, min(budget_s, self._left_s())):
            emulation = emulate(order, tools=tools, budget_s=budget_s)
        for name, measurement in emulation.counters.items():
            present = self._extra.counters.get(name)
            if present is None or present.value is None:
                self._extra.counters[name] = measurement
        self._extra.reports += emulation.reports
        self._extra.warnings += emulation.warnings
        self._extra.interrupted |= emulation.interrupted


def _follows(run: ProcessResult, threads: int) -> bool:
    """Return whether a run computed on no more than that many threads."""
    return run.threads_busy <= threads and run.cpu_s <= ONE_BUSY * threads * run.wall_s


def _no_view(native: Native) -> str | None:
    """Return why an isolated run does not stand for the program's own; None: it does."""
    first = native.first
    if first.not_isolated is not None:
        return first.not_isolated
    if first.written_full:
        return "there is too little memory to hold it"
    if first.succeeded or first.cut or native.interrupted:
        return None
    return f"so run, the program {first.describe()}"


def _dropped(first: ProcessResult) -> list[str]:
    """Return a warning that names what the program wrote; empty if nothing."""
    if not first.written:
        return []
    here = f"{Path.cwd()}/"
    names = sorted((path.removeprefix(here) for path in first.written), key=lambda n: n[:1] == "/")
    more = len(names) - NAMED_FILES
    named = ", ".join(names[:NAMED_FILES]) + (f" and {more} more" if more > 0 else "")
    return [
        f"what the program wrote ({named}) is not kept, your files are as before; run it without "
        "the pilot for its results, or with --in-place"
    ]
