"""``python -m lab.kernels.campaign``: a Profile of each reference kernel at each problem size.

All values of these profiles are for *one repetition* of the kernel:

- runtime: the median time of a repetition, as measured inside the program;
- emulated counts: (counts of a run with one repetition - counts of a run with none) / fraction of
  the repetition that was run. The difference removes start-up and initialisation.

The output file is JSON lines with one Profile per line, written after each; what it has is not
measured again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import click

from berth.pilot import host
from berth.pilot.collectors.base import Stage, measured
from berth.pilot.collectors.proc import peak_memory
from berth.pilot.collectors.registry import names_of
from berth.pilot.derive import derive
from berth.pilot.documents import write_text
from berth.pilot.emulate import Emulation, emulate
from berth.pilot.errors import BerthError, PilotError
from berth.pilot.launch import Order, ProcessResult, run_one
from berth.pilot.native import runtime_of
from berth.pilot.profile import Invocation, Measurement, Profile, RunsOn, SizePoint, read_profiles
from berth.pilot.suite import Kernel, KernelRun, Suite, build_suite, parse_run

DEFAULT_SIZES = (1_048_576, 2_097_152, 8_388_608)
EMULATED_INSTRUCTIONS = 1e8
"""Approximate limit of emulated instructions; longer repetitions are emulated in part."""
OPENMP_ITERATIONS = 400_000
"""Approximate number of emulated iterations of a repetition of the OpenMP build."""
INSTRUCTIONS_PER_S = 5e9
"""Instructions per second of a core, to estimate from a time about how many will be emulated."""
NATIVE_S = 1.0
"""Total time of the repetitions for one native measurement."""
NATIVE_REPS = (5, 25)
"""Smallest and largest number of repetitions of a kernel in one native measurement."""
LONG_REP_S = 3.0
"""Kernels with longer repetitions are timed on a fraction of each, if they support fractions."""
TRIAL_FRACTION = 0.02
LIMIT_S = 600.0


def profile_name(kernel: str, size: int) -> str:
    """Return the name of a kernel's profile at a size, such as ``Stream_TRIAD-8388608``."""
    return f"{kernel}-{size}"


def write_profiles(path: Path, profiles: Iterable[Profile]) -> None:
    """Write profiles one a line, sorted by kernel and size; each with the times and peak memory of
    its kernel at all sizes, and without what was not counted."""
    ordered = sorted(profiles, key=lambda p: (_kernel(p), p.workload.size or 0))
    lines = []
    for profile in ordered:
        points = tuple(
            SizePoint(
                size=p.workload.size,
                runtime_s=p.runtime.median_s,
                peak_memory_bytes=p.peak_memory_bytes,
            )
            for p in ordered
            if _kernel(p) == _kernel(profile)
            and p.runtime
            and p.peak_memory_bytes
            and p.workload.size
        )
        data = profile.model_copy(update={"sizes": points}).model_dump(mode="json", by_alias=True)
        data["counters"] = {
            name: {
                key: value
                for key, value in entry.items()
                if value is not None and value is not True
            }
            for name, entry in data["counters"].items()
            if entry["value"] is not None
        }
        lines.append(json.dumps(data) + "\n")
    write_text(path, "".join(lines))


def _kernel(profile: Profile) -> str:
    return profile.name.rpartition("-")[0]


def pilot_of(suite: Suite, kernel: Kernel, size: int, platform: str) -> Profile:
    """Return the profile of one repetition of a kernel. Raises PilotError where a run fails."""
    subject = _SizedKernel(suite, kernel, size)
    trial, _ = subject.run(1, TRIAL_FRACTION)
    fraction = min(1.0, LONG_REP_S / max(trial.rep_s, 1e-9))
    each_s = max(trial.rep_s * fraction, 1e-9)
    reps = int(min(max(NATIVE_S / each_s, NATIVE_REPS[0]), NATIVE_REPS[1]))
    run, outcome = subject.run(reps, fraction)
    memory = peak_memory(outcome)
    emulation, counters = counted(subject, trial.rep_s * INSTRUCTIONS_PER_S)
    if suite.openmp is not None:
        counters |= openmp_counters(subject)
    counters["gpu_kernels"] = measured("suite", run.work.kernels_per_rep)
    counters["threads"] = measured("proc", 1)
    return Profile(
        name=profile_name(kernel.name, size),
        platform=platform,
        workload=Invocation(
            command=("berth-kernels", "run", kernel.name, "--size", str(size)),
            size=size,
            executable_sha256=host.sha256_of(suite.serial),
        ),
        runs_on=RunsOn(),
        runtime=runtime_of([seconds / run.fraction for seconds in run.seconds]),
        peak_memory_bytes=memory.bytes if memory else run.work.bytes_allocated,
        counters=derive(counters),
        collectors=emulation.reports,
        warnings=emulation.warnings,
        provenance=host.provenance().model_copy(update={"user": ""}),
    )


@dataclass(frozen=True, slots=True)
class _SizedKernel:
    """A reference kernel at one problem size, with its commands."""

    suite: Suite
    kernel: Kernel
    size: int

    def order(self, reps: int, fraction: float, *, openmp: bool = False) -> Order:
        """Return the launch order for ``reps`` repetitions; each runs ``fraction`` of its work."""
        command = self.suite.command(self.kernel, self.size, reps, fraction, openmp=openmp)
        return Order(tuple(command), dict(os.environ))

    def run(
        self, reps: int, fraction: float, *, openmp: bool = False
    ) -> tuple[KernelRun, ProcessResult]:
        """Run the kernel natively; return its printed result and the outcome. Raises PilotError."""
        order = self.order(reps, fraction, openmp=openmp)
        outcome = run_one(replace(order, time_limit_s=LIMIT_S))
        if not outcome.succeeded:
            printed = outcome.output_tail.strip()[-200:]
            raise PilotError(f"{self.kernel.name} {outcome.describe()}: {printed}")
        try:
            return parse_run(json.loads(outcome.output_tail)), outcome
        except (ValueError, KeyError) as error:
            raise PilotError(f"{self.kernel.name} printed something unreadable: {error}") from None


def counted(subject: _SizedKernel, instructions: float) -> tuple[Emulation, dict[str, Measurement]]:
    """Return the emulated run of one repetition (a part where it has more ``instructions`` than
    ``EMULATED_INSTRUCTIONS``), and the counts of a whole one. Raises PilotError."""
    fraction = min(1.0, EMULATED_INSTRUCTIONS / max(instructions, 1.0))
    exact = subject.run(1, fraction)[0].fraction
    none, single = (_emulated(subject.order(reps, fraction)) for reps in (0, 1))
    return single, subtract(single.counters, none.counters, exact)


def openmp_counters(subject: _SizedKernel) -> dict[str, Measurement]:
    """Return the atomic updates and parallel regions of one repetition of the OpenMP build.

    The serial build has neither. Raises PilotError where a run fails.
    """
    iterations = subject.suite.work(subject.size)[subject.kernel.name].iterations_per_rep
    wanted = min(1.0, OPENMP_ITERATIONS / max(iterations, 1))
    exact = subject.run(1, wanted, openmp=True)[0].fraction
    none, single = (_emulated(subject.order(reps, wanted, openmp=True)).counters for reps in (0, 1))
    atomics = subtract(single, none, exact).get("atomic_ops")
    # A part of a repetition still starts each of its regions.
    regions = subtract(single, none, 1.0).get("parallel_regions")
    note = "of one repetition of the OpenMP build on one thread"
    return {
        name: counted.model_copy(update={"note": note})
        for name, counted in (("atomic_ops", atomics), ("parallel_regions", regions))
        if counted is not None
    }


def _emulated(order: Order) -> Emulation:
    tools = names_of(Stage.EMULATED)
    emulation = emulate(order, tools=tools, budget_s=LIMIT_S)
    if emulation.interrupted:
        raise KeyboardInterrupt
    if "instructions" not in emulation.counters:
        raise PilotError("; ".join(emulation.warnings) or "the emulated run gave no counts")
    return emulation


def subtract(
    single: dict[str, Measurement], none: dict[str, Measurement], fraction: float
) -> dict[str, Measurement]:
    """Return the counts of one whole repetition of a kernel, without those of its start-up.

    They are ``max(0, single - none) / fraction``: ``single`` are the counts of a run with one
    repetition, ``none`` of a run without repetitions, ``fraction`` is the part of the repetition
    that was run. Counters that either run lacks are left out.
    """
    note = "of one repetition" if fraction == 1 else f"of one repetition, from {fraction:.3g} of it"
    result = {}
    for name, measurement in single.items():
        start = none.get(name)
        if measurement.value is None or start is None or start.value is None:
            continue
        value = max(0.0, measurement.value - start.value) / fraction
        result[name] = measurement.model_copy(update={"value": value, "note": note})
    return result


@click.command()
@click.option("--kernels", multiple=True, help="Only these kernels [all].")
@click.option("--sizes", type=int, multiple=True, default=DEFAULT_SIZES, help="Problem sizes.")
@click.option("--platform", default="local", help="Name of this platform.")
@click.option("--output", "-o", type=click.Path(path_type=Path), required=True)
def main(kernels: tuple[str, ...], sizes: tuple[int, ...], platform: str, output: Path) -> None:
    """Profile every kernel of the reference suite at every size that OUTPUT lacks."""
    suite = build_suite()
    known = {p.name: p for p in read_profiles(output)} if output.exists() else {}
    for kernel in suite.chosen(kernels):
        for size in sizes:
            name = profile_name(kernel.name, size)
            if name in known:
                continue
            try:
                known[name] = pilot_of(suite, kernel, size, platform)
            except BerthError as error:
                click.echo(f"failed: {name}: {error.message}", err=True)
                continue
            click.echo(name)
            write_profiles(output, known.values())


if __name__ == "__main__":
    main()
