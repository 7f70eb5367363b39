"""``python -m lab.kernels.campaign``: a Profile of each reference kernel at each problem size.

All values of these profiles are for *one repetition* of the kernel:

- runtime: the median time of a repetition, as measured inside the program;
- emulated counts: (counts of a run with one repetition - counts of a run with none) / fraction of
  the repetition that was run. The difference removes start-up and initialisation.

The output file is JSON lines with one Profile per line. It is rewritten after each step, so that
an interrupted campaign resumes where it stopped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
from berth.pilot.progress import Say, say_nothing
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


@dataclass(frozen=True, slots=True)
class CampaignOptions:
    """The options of a campaign: the kernels and sizes to measure, and the output file."""

    output: Path
    sizes: tuple[int, ...] = DEFAULT_SIZES
    kernels: tuple[str, ...] = ()
    """Names of the kernels to measure; empty: all kernels of the suite."""
    platform: str = "local"
    native: bool = True
    emulated: bool = True
    refresh: bool = False
    """Repeat measurements that the output file already holds."""


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """The numbers of profiles that a campaign wrote and measured, and its failures.

    ``profiles``: profiles in the file; ``measured``: of these, measured now; ``failed``: one
    ``name: reason`` for each kernel and size that could not be measured.
    """

    profiles: int
    measured: int
    failed: tuple[str, ...]


def run_campaign(options: CampaignOptions, suite: Suite, say: Say = say_nothing) -> CampaignResult:
    """Measure the profiles that the output file lacks, and write them into it.

    Raises:
        DocumentError: the file exists but does not hold profiles.
        UsageError: a kernel is unknown.
    """
    kernels = suite.chosen(options.kernels)
    known = {p.name: p for p in read_profiles(options.output)} if options.output.exists() else {}
    failed: list[str] = []
    done = 0
    steps = [(kernel, size) for kernel in kernels for size in options.sizes]
    for before_it, (kernel, size) in enumerate(steps):
        name = profile_name(kernel.name, size)
        before = known.get(name) or _blank(kernel.name, size, suite, options)
        need_native = options.native and (options.refresh or before.runtime is None)
        need_counts = options.emulated and (options.refresh or before.value("instructions") is None)
        need_openmp = (
            options.emulated
            and suite.openmp is not None
            and (options.refresh or not before.value("parallel_regions"))
        )
        if not (need_native or need_counts or need_openmp):
            continue
        say(name, before_it, len(steps))
        subject = _SizedKernel(suite, kernel, size, options)
        try:
            after = before
            if need_native:
                after = _timed(after, subject)
            if need_counts:
                after = _counted(after, subject)
            if need_openmp:
                counters = {**after.counters, **openmp_counters(subject)}
                after = after.model_copy(update={"counters": counters})
        except BerthError as error:
            failed.append(f"{name}: {error.message}")
            continue
        known[name] = after
        done += 1
        write_profiles(options.output, _with_sizes(known.values()))
    return CampaignResult(len(known), done, tuple(failed))


def profile_name(kernel: str, size: int) -> str:
    """Return the name of a kernel's profile at a size, such as ``Stream_TRIAD-8388608``."""
    return f"{kernel}-{size}"


def write_profiles(path: Path, profiles: Iterable[Profile]) -> None:
    """Write profiles to a campaign file, one line each, sorted by kernel and size.

    Missing counters are left out.
    """
    ordered = sorted(profiles, key=lambda p: (p.name.rpartition("-")[0], p.workload.size or 0))
    write_text(path, "".join(json.dumps(_compact(profile)) + "\n" for profile in ordered))


def _compact(profile: Profile) -> dict[str, Any]:
    data: dict[str, Any] = profile.model_dump(mode="json", by_alias=True)
    counters = data["counters"].items()
    data["counters"] = {
        name: {
            key: value for key, value in entry.items() if value is not None and value is not True
        }
        for name, entry in counters
        if entry["value"] is not None
    }
    return data


def _blank(kernel: str, size: int, suite: Suite, options: CampaignOptions) -> Profile:
    return Profile(
        name=profile_name(kernel, size),
        platform=options.platform,
        workload=Invocation(
            command=("berth-kernels", "run", kernel, "--size", str(size)),
            size=size,
            executable_sha256=host.sha256_of(suite.serial),
        ),
        runs_on=RunsOn(),
        runtime=None,
        peak_memory_bytes=None,
        counters={},
        provenance=host.provenance().model_copy(update={"user": ""}),
    )


@dataclass(frozen=True, slots=True)
class _SizedKernel:
    """A reference kernel at one problem size, with its commands."""

    suite: Suite
    kernel: Kernel
    size: int
    options: CampaignOptions

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


def _timed(profile: Profile, subject: _SizedKernel) -> Profile:
    """Run a kernel natively; return its profile with seconds per repetition and peak memory."""
    trial, _ = subject.run(1, TRIAL_FRACTION)
    fraction = min(1.0, LONG_REP_S / max(trial.rep_s, 1e-9))
    each_s = max(trial.rep_s * fraction, 1e-9)
    reps = int(min(max(NATIVE_S / each_s, NATIVE_REPS[0]), NATIVE_REPS[1]))
    run, outcome = subject.run(reps, fraction)
    memory = peak_memory(outcome)
    counters = dict(profile.counters)
    counters["gpu_kernels"] = measured("suite", run.work.kernels_per_rep)
    counters["threads"] = measured("proc", 1)
    return profile.model_copy(
        update={
            "runtime": runtime_of([seconds / run.fraction for seconds in run.seconds]),
            "peak_memory_bytes": memory.bytes if memory else run.work.bytes_allocated,
            "counters": counters,
            "platform": subject.options.platform,
            "machine": None,
            "provenance": host.provenance().model_copy(update={"user": ""}),
        }
    )


def _counted(profile: Profile, subject: _SizedKernel) -> Profile:
    """Run a kernel emulated; return its profile with the counters of one repetition."""
    trial, _ = subject.run(1, TRIAL_FRACTION)
    guess = trial.rep_s * INSTRUCTIONS_PER_S
    fraction = min(1.0, EMULATED_INSTRUCTIONS / max(guess, 1.0))
    exact = subject.run(1, fraction)[0].fraction
    none, single = (_emulated(subject.order(reps, fraction)) for reps in (0, 1))
    counters = subtract(single.counters, none.counters, exact)
    return profile.model_copy(
        update={
            "counters": derive({**profile.counters, **counters}),
            "collectors": single.reports,
            "warnings": tuple(dict.fromkeys((*none.warnings, *single.warnings))),
        }
    )


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


def _with_sizes(profiles: Iterable[Profile]) -> list[Profile]:
    """Return the profiles with the times and peak memory of each kernel at all measured sizes."""
    measured_profiles = list(profiles)
    points: dict[str, list[SizePoint]] = {}
    for profile in measured_profiles:
        if profile.runtime and profile.peak_memory_bytes and profile.workload.size:
            points.setdefault(profile.name.rpartition("-")[0], []).append(
                SizePoint(
                    size=profile.workload.size,
                    runtime_s=profile.runtime.median_s,
                    peak_memory_bytes=profile.peak_memory_bytes,
                )
            )
    return [
        _sized(profile, points.get(profile.name.rpartition("-")[0], ()))
        for profile in measured_profiles
    ]


def _sized(profile: Profile, points: Sequence[SizePoint]) -> Profile:
    ordered = tuple(sorted(points, key=lambda point: point.size))
    return profile.model_copy(update={"sizes": ordered})


@click.command()
@click.option("--kernels", multiple=True, help="Only these kernels [all].")
@click.option("--sizes", type=int, multiple=True, default=DEFAULT_SIZES, help="Problem sizes.")
@click.option("--platform", default="local", help="Name of this platform.")
@click.option("--only", type=click.Choice(["times", "counts"]), help="Measure only these [both].")
@click.option("--refresh", is_flag=True, help="Measure again what the file already has.")
@click.option("--output", "-o", type=click.Path(path_type=Path), required=True)
def main(*, only: str | None, **settings: Any) -> None:
    """Profile every kernel of the reference suite at every size; go on where it stopped."""
    chosen = CampaignOptions(native=only != "counts", emulated=only != "times", **settings)
    result = run_campaign(chosen, build_suite(), lambda step, *_: click.echo(step))
    click.echo(f"{chosen.output}: {result.profiles} profiles, {result.measured} measured now")
    for problem in result.failed:
        click.echo(f"failed: {problem}", err=True)


if __name__ == "__main__":
    main()
