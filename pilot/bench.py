"""The machine benchmark: run the suite's C benchmarks and return this machine's Signature.

The cache sizes are those that Linux reports. A working set measures a cache level if it fits in
that cache and is clearly larger than the next smaller cache. The benchmarks are compiled with the
flags of the reference kernels (``pilot/suite_build.py``), so the measured ceilings are those of
code for that instruction set (at most x86-64-v3) and not of the widest vectors of the machine.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from berth.pilot.control_groups import cpu_groups, quota_share, withheld_s
from berth.pilot.errors import PilotError
from berth.pilot.host import Cache, Topology, cpu_model, topology
from berth.pilot.instruction_sets import of_this_machine
from berth.pilot.platform import MemoryLevel, Platform, PlatformKind, Signature, SignatureSource
from berth.pilot.profile import Target
from berth.pilot.suite import BenchResult, Suite, SweepPoint
from berth.pilot.units import format_bytes

Progress = Callable[[str, int, int], None]
"""Function called with the next step's name, the number of completed steps, and the total."""

ANCHORS = (
    "Stream_TRIAD", "Stream_DOT", "Algorithm_MEMCPY", "Basic_IF_QUAD", "Basic_INDEXLIST",
    "Basic_TRAP_INT", "Basic_MAT_MAT_SHARED", "Lcals_HYDRO_2D", "Lcals_PLANCKIAN",
    "Lcals_DIFF_PREDICT", "Apps_LTIMES", "Apps_VOL3D", "Apps_NODAL_ACCUMULATION_3D",
    "Polybench_GEMM", "Polybench_JACOBI_2D", "Polybench_FLOYD_WARSHALL", "Polybench_ADI",
)  # fmt: skip
"""Kernels that a quick benchmark times; a full benchmark times all kernels of the suite."""
QUICK_SIZES = (1_048_576,)
FULL_SIZES = (1_048_576, 8_388_608)
SAMPLED_FRACTION = 0.05
"""Fraction of a repetition that is run of kernels that support fractions, to save time."""
USUAL_WORKING_SET = 512 * 2**20
"""Bytes of the largest working set where no cache asks for a larger one."""
BEYOND_CACHE = 4
"""A working set of so many times the last-level cache is in main memory."""
FULL_SHARE = 0.95
"""A processor share above this counts as 1: a host takes a few per cent in passing."""
RATES = (
    "flops_f64_per_s", "flops_f32_per_s", "flops_f64_core_per_s", "flops_f32_core_per_s",
    "int_ops_core_per_s", "scalar_chain_core_per_s", "branch_misses_core_per_s",
    "gather_core_per_s", "gather_total_per_s", "reduction_total_bytes_per_s", "atomics_per_s",
)  # fmt: skip
"""Signature fields measured per second of processor time; all others are per wall-clock second."""
_CACHE_NAMES = {1: "l1", 2: "l2", 3: "l3"}
_SCALING_KERNEL, _SCALING_SIZE = "Stream_TRIAD", 8_388_608
_TRIAD_BYTES = 24


def measure_signature(
    suite: Suite,
    *,
    full: bool = False,
    kernels: bool = True,
    machine: Topology | None = None,
    progress: Progress | None = None,
) -> Signature:
    """Benchmark this machine and return its signature; the machine should have no other work.

    Quick mode (about ten seconds) measures every rate briefly and times the ``ANCHORS`` on one
    core. Full mode (some minutes) measures longer, and times all kernels at two sizes, on one core
    and on all cores. Without an OpenMP build, the rates of the whole platform are those of one
    core, which ``measured_on`` mentions. ``kernels`` false: no kernel times.
    """
    machine = machine or topology()
    cores = machine.cores if suite.openmp else 1
    anchors = _anchor_steps(suite, machine, cores, full=full) if kernels else []
    scaling = _thread_counts(cores) if suite.chosen((_SCALING_KERNEL,)) else ()
    steps = _Steps(progress, total=15 + len(scaling) + len(anchors))
    seconds = None if full else 0.12
    groups = cpu_groups()
    computed_s = wanted_s = all_cores_s = quota_s = 0.0

    def bench(part: str, threads: int = 1, *, sweep_s: float | None = None) -> BenchResult:
        steps.next(f"{part} on {threads} core{'s' if threads > 1 else ''}")
        chosen = seconds if sweep_s is None or full else sweep_s
        began, withheld_before = time.monotonic(), withheld_s(groups)
        result = suite.bench(
            part,
            threads,
            seconds=chosen,
            openmp=threads > 1,
            largest_bytes=largest_working_set(machine, threads),
        )
        nonlocal computed_s, wanted_s, all_cores_s, quota_s
        if threads == cores:
            all_cores_s += cores * (time.monotonic() - began)
            quota_s += withheld_s(groups) - withheld_before
        if threads == 1:
            computed_s += result.details["computed_s"] or 0.0
            wanted_s += result.details["wanted_s"] or 0.0
        return result

    f64 = bench("flops_f64")
    f64_all = bench("flops_f64", cores)
    f32 = bench("flops_f32")
    f32_all = bench("flops_f32", cores)
    bandwidth = bench("bandwidth", sweep_s=0.5)
    bandwidth_all = bench("bandwidth", cores, sweep_s=0.5)
    latency = bench("latency", sweep_s=0.8)
    reduction = bench("reduction", cores)
    gather = bench("gather", sweep_s=0.3)
    gather_all = bench("gather", cores, sweep_s=0.3)
    branchy = bench("branchy", sweep_s=0.2)
    integers = bench("int_ops")
    chain = bench("scalar_chain")
    atomic = bench("atomic", cores)
    region = bench("fork_join", cores)
    memory = memory_levels(machine, cores, bandwidth.points, bandwidth_all.points, latency.points)
    if not memory or memory[-1].level != "dram":
        raise PilotError(
            f"main memory cannot be measured: with {format_bytes(machine.memory_bytes)} of it no "
            f"working set is {BEYOND_CACHE} times the last-level cache",
            hint="measure on a node with more memory",
        )
    signature = Signature(
        source=SignatureSource.BENCHMARK,
        measured_on=_measured_on(suite, machine, full=full),
        flops_f64_per_s=max(_value(f64_all), _value(f64)),
        flops_f32_per_s=max(_value(f32_all), _value(f32)),
        flops_f64_core_per_s=_value(f64),
        flops_f32_core_per_s=_value(f32),
        memory=memory,
        int_ops_core_per_s=integers.value,
        scalar_chain_core_per_s=chain.value,
        branch_misses_core_per_s=branchy.details.get("misses_per_s"),
        gather_core_per_s=gather.value,
        gather_total_per_s=gather_all.value,
        reduction_total_bytes_per_s=reduction.value,
        atomics_per_s=atomic.value,
        launch_overhead_s=None if region.value is None else region.value * 1e-9,
        thread_scaling=tuple(_scaling(suite, machine, scaling, steps)),
        kernel_times_s=_anchor_times(suite, anchors, steps, full=full),
    )
    quota = quota_share(cores, groups)
    if quota == 1:  # none, or one that cannot be seen
        quota -= quota_s / all_cores_s
    # A host or a freezer holds up one thread as well. Its waits for other programs do not count.
    return _sustained(signature, min(quota, computed_s / wanted_s))


def platform_here(name: str, signature: Signature, *, description: str = "") -> Platform:
    """Return a CPU platform that describes this machine, without price and power."""
    machine = topology()
    return Platform(
        name=name,
        kind=PlatformKind.CPU,
        description=description or f"{machine.cores} cores of {cpu_model()}",
        architecture=platform.machine(),
        targets=(Target.CPU,),
        instruction_sets=of_this_machine(),
        processor=cpu_model()[:200],
        cores=machine.cores,
        memory_bytes=machine.memory_bytes,
        signature=signature,
    )


def memory_levels(
    machine: Topology,
    cores: int,
    core_points: Sequence[SweepPoint],
    total_points: Sequence[SweepPoint],
    latency_points: Sequence[SweepPoint],
) -> tuple[MemoryLevel, ...]:
    """Return the memory levels from L1 cache to main memory, measured by working-set sweeps.

    ``core_points``: byte/s of one core; ``total_points``: byte/s of ``cores`` cores together;
    ``latency_points``: ns per access. Main memory is left out where no working set is so large that
    the caches cannot hold much of it.
    """
    levels = []
    smaller_core = smaller_total = 0
    for cache in machine.caches:
        name = _CACHE_NAMES.get(cache.level)
        private = machine.private(cache)
        in_use = min(cache.total_bytes, cache.instance_bytes * cores)
        core = _within(core_points, smaller_core, cache.instance_bytes)
        total = _within(total_points, smaller_total, in_use)
        latency = _within(latency_points, smaller_core, cache.instance_bytes)
        smaller_core, smaller_total = cache.instance_bytes, in_use
        if name is None or total is None:
            continue  # a level that no working set of the sweep fits
        levels.append(
            MemoryLevel(
                level=name,
                capacity_bytes=cache.instance_bytes if private else cache.total_bytes,
                core_bytes_per_s=core,
                total_bytes_per_s=total,
                latency_s=None if latency is None else latency * 1e-9,
            )
        )
    total = _beyond(total_points, smaller_total)
    if total is not None:
        latency = _beyond(latency_points, smaller_core)
        levels.append(
            MemoryLevel(
                level="dram",
                capacity_bytes=machine.memory_bytes,
                core_bytes_per_s=_beyond(core_points, smaller_core),
                total_bytes_per_s=total,
                latency_s=None if latency is None else latency * 1e-9,
            )
        )
    return tuple(levels)


def largest_working_set(machine: Topology, threads: int) -> int:
    """Return the bytes of the largest working set that benchmarks use on so many threads.

    It is in main memory: 512 MiB, or ``BEYOND_CACHE`` times the last-level cache in use where that
    is more, but at most a quarter of the memory.
    """
    last = machine.caches[-1] if machine.caches else Cache(1, 0, 1)
    in_use = last.instance_bytes if threads == 1 else last.total_bytes
    largest = USUAL_WORKING_SET
    while largest < BEYOND_CACHE * in_use:
        largest *= 2
    while largest > max(machine.memory_bytes // 4, 2**20):
        largest //= 2
    return largest


def _within(points: Sequence[SweepPoint], smaller: int, capacity: int) -> float | None:
    """Return a sweep's median rate or latency for working sets that fit in a cache level.

    These have more than 1.25 x ``smaller`` (size of the next smaller cache) and at most
    ``capacity`` bytes. None: the sweep has no such working set.
    """
    fitting = [p.value for p in points if 1.25 * smaller < p.working_set_bytes <= capacity]
    return statistics.median(fitting) if fitting else None


def _beyond(points: Sequence[SweepPoint], last_cache: int) -> float | None:
    """Return a sweep's median rate or latency for working sets in main memory.

    These have at least ``BEYOND_CACHE`` times ``last_cache`` bytes, or are the largest one where
    no cache is known (0). None: the sweep has no such working set.
    """
    if not last_cache:
        return points[-1].value
    clear = [p.value for p in points if p.working_set_bytes >= BEYOND_CACHE * last_cache]
    return statistics.median(clear) if clear else None


class _Steps:
    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def next(self, step: str) -> None:
        if self._progress is not None:
            self._progress(step, self._done, self._total)
        self._done += 1


def _value(result: BenchResult) -> float:
    if result.value is None:
        raise PilotError(f"the benchmark of {result.what} gave no value")
    return result.value


def _sustained(signature: Signature, share: float) -> Signature:
    """Return the signature with rates per processor second converted to rates per second.

    ``share``: processor seconds per wall-clock second that a thread gets.
    """
    share = 1.0 if share > FULL_SHARE else share
    return times_rates(signature, share).model_copy(update={"processor_share": share})


def times_rates(signature: Signature, factor: float) -> Signature:
    """Return the signature with ``RATES`` and memory bandwidths multiplied by ``factor``."""
    rates = {
        name: rate * factor for name in RATES if (rate := getattr(signature, name)) is not None
    }
    levels = tuple(
        level.model_copy(
            update={
                "core_bytes_per_s": level.core_bytes_per_s and level.core_bytes_per_s * factor,
                "total_bytes_per_s": level.total_bytes_per_s * factor,
            }
        )
        for level in signature.memory
    )
    return signature.model_copy(update={**rates, "memory": levels})


def _measured_on(suite: Suite, machine: Topology, *, full: bool) -> str:
    parts = [
        datetime.now(UTC).date().isoformat(),
        f"berth pilot bench{' --full' if full else ''}",
        f"{machine.cores} cores of {cpu_model()}",
        f"{suite.build.compiler} {' '.join(suite.build.flags)}",
    ]
    if suite.openmp is None:
        parts.append("no OpenMP: rates of the whole platform are of one core")
    if suite.left_out:
        parts.append(suite.left_out)
    return "; ".join(parts)


def _thread_counts(cores: int) -> tuple[int, ...]:
    counts = [1]
    while counts[-1] * 2 < cores:
        counts.append(counts[-1] * 2)
    return (*counts, cores) if cores > 1 else (1,)


def _scaling(
    suite: Suite, machine: Topology, counts: Iterable[int], steps: _Steps
) -> Iterable[tuple[int, float]]:
    """Yield (threads, byte/s of the STREAM triad in main memory) for each number of threads.

    The rate is that of the best of ten repetitions, as STREAM has it: others were disturbed.
    """
    last = machine.caches[-1].total_bytes if machine.caches else 0
    wanted = max(_SCALING_SIZE, BEYOND_CACHE * last // _TRIAD_BYTES)
    size = min(wanted, machine.memory_bytes // 4 // _TRIAD_BYTES)
    for threads in counts:
        steps.next(f"memory bandwidth on {threads} cores")
        run = suite.run(_SCALING_KERNEL, size, reps=10, threads=threads, pinned=True)
        yield threads, run.work.bytes_per_rep * run.fraction / min(run.seconds)


def _anchor_steps(
    suite: Suite, machine: Topology, cores: int, *, full: bool
) -> list[tuple[str, int, int]]:
    """Return (kernel, size, threads) of the kernel runs that need at most half of the memory."""
    names = [kernel.name for kernel in suite.chosen(() if full else ANCHORS)]
    teams = (1, cores) if full and cores > 1 else (1,)
    steps = []
    for size in FULL_SIZES if full else QUICK_SIZES:
        work = suite.work(size)
        fitting = [n for n in names if work[n].bytes_allocated <= machine.memory_bytes // 2]
        steps += [(name, size, threads) for name in fitting for threads in teams]
    return steps


def _anchor_times(
    suite: Suite, anchors: Sequence[tuple[str, int, int]], steps: _Steps, *, full: bool
) -> dict[str, float]:
    times = {}
    for name, size, threads in anchors:
        steps.next(f"{name} at {size} on {threads} core{'s' if threads > 1 else ''}")
        fraction = SAMPLED_FRACTION if suite.kernel(name).sampled else 1.0
        run = suite.run(
            name, size, reps=5 if full else 3, fraction=fraction, threads=threads, pinned=True
        )
        times[f"{name}@{size}x{threads}"] = run.rep_s
    return times
