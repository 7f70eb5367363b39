"""The reference suite: small kernels with known work, and the machine benchmark.

Sixty kernels have the names, problem sizes and work per repetition of the RAJA Performance Suite,
so that counts measured by Berth can be joined with the published times of that suite. The kernels
of the groups Integer, Irregular, Message and Single represent other programs: compressors,
sorting, graphs, interpreters, small messages, molecular dynamics. No times of these are published;
each site measures its own. ``build_suite()`` builds the C sources in ``pilot/kernels/`` at first
use::

    suite = build_suite()
    run = suite.run("Stream_TRIAD", size=1_048_576, reps=5)
    print(run.rep_s, run.bytes_per_rep / run.rep_s)
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from berth.pilot.errors import PilotError, ToolMissing, UsageError
from berth.pilot.suite_build import Build, build


@dataclass(frozen=True)
class Kernel:
    """A kernel of the reference suite: its name and the ways in which it can be run."""

    name: str
    """``Group_NAME``, as in published RAJA Performance Suite results."""
    group: str
    sampled: bool
    """Whether the kernel can run a ``fraction`` below 1 of its outermost iterations."""
    default_sizes: tuple[int, ...]


@dataclass(frozen=True)
class KernelWork:
    """The work of one whole repetition of a kernel at one size, as the suite defines it."""

    name: str
    target_size: int
    size: int
    """The actual size: ``target_size`` rounded to what the kernel supports (a square, a cube)."""
    iterations_per_rep: int
    bytes_per_rep: int
    flops_per_rep: int
    kernels_per_rep: int
    """Number of parallel loops in one repetition; on a GPU, of kernel launches."""
    bytes_allocated: int


@dataclass(frozen=True)
class KernelRun:
    """The result of one run of a kernel."""

    work: KernelWork
    threads: int
    outer_executed: int
    outer_total: int
    seconds: tuple[float, ...]
    """Measured seconds of each repetition; divided by ``fraction``, those of a whole repetition."""
    processor_s: float
    """Processor time in seconds of all repetitions and threads together."""

    @property
    def fraction(self) -> float:
        """Return the executed fraction of each repetition: outer iterations executed / total."""
        return self.outer_executed / self.outer_total

    @property
    def rep_s(self) -> float:
        """Return the median time of a whole repetition in seconds: median / ``fraction``.

        Raises UsageError if the kernel was run without repetitions.
        """
        if not self.seconds:
            raise UsageError(f"{self.work.name} was run with no repetitions: it has no time")
        return statistics.median(self.seconds) / self.fraction


@dataclass(frozen=True)
class SweepPoint:
    """A rate (byte/s) or latency (ns) at one working-set size."""

    working_set_bytes: int
    value: float


@dataclass(frozen=True)
class BenchResult:
    """The measurement of one part of the machine benchmark."""

    what: str
    threads: int
    value: float | None = None
    """Result in ``unit``, the sum over all threads; None for sweeps, whose results are ``points``,
    and for parts that cannot be measured."""
    unit: str = ""
    points: tuple[SweepPoint, ...] = ()
    details: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """The built reference suite, which runs the kernels and the parts of the machine benchmark.

    If the OpenMP build failed, ``openmp_problem`` has the reason. Kernels whose results are wrong
    on this machine are not among ``kernels``; ``left_out`` names them.
    """

    build: Build
    kernels: tuple[Kernel, ...]

    @property
    def serial(self) -> Path:
        """Return the path of the suite's binary that runs on one thread."""
        return self.build.serial

    @property
    def openmp(self) -> Path | None:
        """Return the path of the suite's OpenMP binary; None if it could not be built."""
        return self.build.openmp

    @property
    def openmp_problem(self) -> str | None:
        """Return why there is no OpenMP binary, or None if there is one."""
        return self.build.openmp_problem

    @property
    def left_out(self) -> str | None:
        """Return a sentence about the kernels that are left out as wrong, or None."""
        if not self.build.wrong:
            return None
        return (
            f"left out, as {self.build.compiler} gets them wrong on this machine: "
            f"{', '.join(self.build.wrong)} ('{self.serial} check' says how)"
        )

    def kernel(self, name: str) -> Kernel:
        """Return the suite's kernel with this name. Raises UsageError where there is none."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        known = ", ".join(kernel.name for kernel in self.kernels)
        left_out = f"; {self.left_out}" if name in self.build.wrong else ""
        raise UsageError(f"no kernel {name!r} in the suite{left_out}", hint=f"there are: {known}")

    def chosen(self, names: Sequence[str] = ()) -> tuple[Kernel, ...]:
        """Return the kernels of these names (none: all of the suite), without those left out.

        Raises UsageError for unknown names.
        """
        if not names:
            return self.kernels
        return tuple(self.kernel(name) for name in names if name not in self.build.wrong)

    def work(self, size: int) -> dict[str, KernelWork]:
        """Return the work of one repetition at the target size ``size``, by kernel name."""
        entries = _ask([str(self.serial), "list", "--size", str(size)])
        return {entry["name"]: _work(entry) for entry in entries}

    def command(
        self,
        kernel: Kernel | str,
        size: int,
        reps: int = 1,
        fraction: float = 1.0,
        threads: int = 1,
        *,
        openmp: bool = False,
    ) -> list[str]:
        """Return the command that runs a kernel, such as for a run under a counting tool.

        With ``reps=0`` the program only starts, allocates and initialises: subtract the counts of
        such a run. Each repetition executes about ``fraction`` of a whole one; the JSON that the
        run prints has the exact fraction.
        Raises UsageError for an unknown kernel, ToolMissing if the OpenMP build is needed but
        missing.
        """
        name = kernel.name if isinstance(kernel, Kernel) else self.kernel(kernel).name
        return [
            *(str(self._binary(threads, openmp=openmp)), "run", name, "--size", str(size)),
            *("--reps", str(reps), "--fraction", repr(fraction), "--threads", str(threads)),
        ]

    def run(
        self,
        kernel: Kernel | str,
        size: int,
        reps: int = 1,
        fraction: float = 1.0,
        threads: int = 1,
        *,
        openmp: bool | None = None,
        pinned: bool = False,
        timeout_s: float | None = None,
    ) -> KernelRun:
        """Run a kernel on this machine and return its times.

        ``openmp``: use the OpenMP binary; default: if ``threads`` is above 1. ``pinned``: spread
        the threads over the cores and pin them, for a machine without other work.
        Raises UsageError, ToolMissing, or PilotError when the run fails (memory, time limit).
        """
        use_openmp = threads > 1 if openmp is None else openmp
        command = self.command(kernel, size, reps, fraction, threads, openmp=use_openmp)
        return parse_run(_ask(command, timeout_s, pinned=pinned))

    def bench(
        self,
        part: str,
        threads: int = 1,
        *,
        seconds: float | None = None,
        openmp: bool = False,
        largest_bytes: int | None = None,
    ) -> BenchResult:
        """Run one part of the machine benchmark and return its result.

        ``seconds``: approximate length of the run; by default up to 1 s. ``largest_bytes``: the
        largest working set, by default 512 MiB.
        """
        binary = self._binary(threads, openmp=openmp or threads > 1)
        command = [str(binary), "bench", part, "--threads", str(threads)]
        if seconds is not None:
            command += ["--seconds", f"{seconds:g}"]
        if largest_bytes is not None:
            command += ["--largest", str(largest_bytes)]
        answer = _ask(command, pinned=True)
        points = answer.get("points", ())
        known = {"what", "threads", "value", "unit", "points"}
        return BenchResult(
            what=answer["what"],
            threads=answer["threads"],
            value=answer.get("value"),
            unit=answer.get("unit", ""),
            points=tuple(SweepPoint(p["bytes"], p.get("bytes_per_s", p.get("ns"))) for p in points),
            details={key: value for key, value in answer.items() if key not in known},
        )

    def _binary(self, threads: int, *, openmp: bool) -> Path:
        if not openmp:
            if threads != 1:
                raise UsageError(
                    f"the serial kernels cannot use {threads} threads", hint="ask for openmp=True"
                )
            return self.serial
        if self.openmp is None:
            raise ToolMissing(
                "OpenMP",
                needed_for="kernels on several threads",
                hint=f"the compiler said: {self.openmp_problem}; "
                f"when that is mended, remove {self.build.folder}",
            )
        return self.openmp


def build_suite(*, sources: Path | None = None, cache: Path | None = None) -> Suite:
    """Return the reference suite; it is built at first use (some seconds) and cached on disk.

    ``sources`` defaults to ``pilot/kernels/``, ``cache`` to ``$BERTH_CACHE``, else
    ``$XDG_CACHE_HOME/berth``, else ``~/.cache/berth``. Raises ToolMissing, PilotError.
    """
    binaries = build(sources=sources, cache=cache)
    entries = _ask([str(binaries.serial), "list"])
    kernels = tuple(
        Kernel(entry["name"], entry["group"], entry["sampled"], tuple(entry["default_sizes"]))
        for entry in entries
        if entry["name"] not in binaries.wrong
    )
    return Suite(binaries, kernels)


def parse_run(answer: Any) -> KernelRun:
    """Return the KernelRun in the JSON object that a kernel's ``run`` command printed."""
    return KernelRun(
        work=_work(answer),
        threads=answer["threads"],
        outer_executed=answer["outer_executed"],
        outer_total=answer["outer_total"],
        seconds=tuple(answer["seconds"]),
        processor_s=answer["processor_s"],
    )


def _work(entry: Any) -> KernelWork:
    return KernelWork(**{column.name: entry[column.name] for column in fields(KernelWork)})


_PINNED = {"OMP_PLACES": "cores", "OMP_PROC_BIND": "spread"}


def _ask(command: list[str], timeout_s: float | None = None, *, pinned: bool = False) -> Any:
    """Run a kernel binary and return the JSON that it prints. Raises UsageError, PilotError."""
    doing = " ".join(command[1:3])
    environment = {**_PINNED, **os.environ} if pinned else None
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise PilotError(f"{doing} took longer than {timeout_s:g} s") from error
    except OSError as error:
        raise PilotError(
            f"the built kernels in {Path(command[0]).parent} do not run: {error.strerror}",
            hint="remove that folder; they are built again",
        ) from error
    if done.returncode < 0:
        number = -done.returncode
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        hint = "the machine may be out of memory" if name == "SIGKILL" else None
        raise PilotError(f"{doing} was ended by {name}", hint=hint)
    if done.returncode != 0:
        message = done.stderr.strip().removeprefix("berth-kernels: ")
        kind = UsageError if done.returncode == UsageError.exit_status else PilotError
        raise kind(message or f"{doing} ended with exit status {done.returncode}")
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise PilotError(f"{doing} printed something that is not JSON") from error
