"""A node measured for calibration: the machine benchmark and times of the reference kernels.

One JSON file a node (``berth.node/1``), rewritten after each step: a measurement that was cut
short goes on where it stopped. Times are of one repetition on one core, as the mean over blocks
of repetitions, so that a node whose cores are throttled shows what they deliver over time.
"""

from __future__ import annotations

import math
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from berth.pilot.bench import ANCHORS, SAMPLED_FRACTION, measure_signature, platform_here
from berth.pilot.documents import Document, read_json, write_json
from berth.pilot.errors import BerthError, UsageError
from berth.pilot.host import cpu_model, gpu_driver
from berth.pilot.platform import Platform
from berth.pilot.profile import NonNegative, Positive
from berth.pilot.progress import Say, say_nothing
from berth.pilot.shepherd import TICKS_PER_S, machine_ticks
from berth.pilot.suite import Suite

NODE_SCHEMA = "berth.node/1"
SIZE = 1_048_576
"""Problem size of the kernels: that of the shipped counts."""
LARGE_SIZE = 8_388_608
"""A second one, beyond most last-level caches, of the loops: those of the suite that"""
LOOPS = frozenset(("Algorithm", "Apps", "Basic", "Lcals", "Polybench", "Stream"))
"""are of these groups,"""
LARGE_S = 0.05
"""took at most so long at the first size,"""
LARGE_BYTES = 512 * 2**20
"""and need no more memory."""
QUICK_KERNELS = (
    *ANCHORS, "Integer_MATCH", "Integer_QUICK_SORT", "Irregular_CHASE", "Irregular_INTERPRETER",
    "Single_GEMM", "Single_PAIRS",
)  # fmt: skip
KERNEL_S = 0.3
"""Seconds of repetitions for one time,"""
FULL_KERNEL_S = 1.0
"""and of a full measurement."""
REPS = (3, 400)
"""Least and most repetitions."""
BLOCKS = 5
"""The repetitions are averaged in so many blocks, of which the median counts."""
MOST_OTHER_LOAD = 0.1
"""Share of a core that others may take before the times are said to be doubtful."""


class NodeMeasurement(Document):
    """Measurements on one node."""

    schema_: str = Field(default=NODE_SCHEMA, alias="schema")
    node: str = Field(min_length=1, max_length=256)
    """The node, as the scheduler calls it."""
    host: str = ""
    kernel: str = ""
    """Operating system and release, as ``uname -sr``."""
    driver: str | None = None
    """Version of the GPUs' driver, where there are some."""
    processor: str = ""
    measured: str = ""
    """Time when it began."""
    platform: Platform | None = None
    """The benchmarked platform; None: the benchmark did not run yet, or could not."""
    seconds: dict[str, Positive] = Field(default_factory=dict, max_length=10_000)
    """Seconds by kernel and size (``Stream_TRIAD-1048576``)."""
    other_load: NonNegative = 0.0
    """Cores that other programs took meanwhile, on average over the measured kernels."""
    problems: tuple[str, ...] = ()
    complete: bool = False


def kernel_release() -> str:
    """Return the operating system and release of this machine."""
    return f"{platform.system()} {platform.release()}"


def begin(into: Path, *, node: str) -> NodeMeasurement:
    """Return the measurement in ``into`` if it is of this node as it runs now; else a new one."""
    new = NodeMeasurement(
        node=node,
        host=platform.node(),
        kernel=kernel_release(),
        driver=gpu_driver(),
        processor=cpu_model(),
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    if not into.exists():
        return new
    try:
        earlier = read_json(into, NodeMeasurement)
    except UsageError:
        return new
    then = (earlier.node, earlier.host, earlier.kernel, earlier.driver)
    same = then == (new.node, new.host, new.kernel, new.driver)
    return earlier.model_copy(update={"problems": ()}) if same else new


def measure_node(
    into: Path,
    build: Callable[[], Suite],
    *,
    name: str,
    node: str,
    kernels: Sequence[str] = (),
    full: bool = False,
    say: Say = say_nothing,
) -> NodeMeasurement:
    """Benchmark this node as platform ``name`` and time ``kernels`` (default: all).

    What cannot be measured is a problem in the result, never an exception; ``into`` has the
    result after each step. Raises UsageError where it cannot be written.
    """
    result = begin(into, node=node)
    try:
        suite = build()
        wanted = [suite.kernel(k).name for k in kernels] or [k.name for k in suite.kernels]
        large = () if kernels else _large(suite)
        if result.platform is None or result.platform.name != name:
            signature = measure_signature(
                suite,
                full=full,
                kernels=False,
                progress=say,
            )
            result = result.model_copy(update={"platform": platform_here(name, signature)})
            write_json(into, result)
    except BerthError as error:
        result = result.model_copy(update={"problems": (error.message,)})
        write_json(into, result)
        return result
    loads: list[float] = []
    both = [*((kernel, SIZE) for kernel in wanted), *((kernel, LARGE_SIZE) for kernel in large)]
    for number, (kernel, size) in enumerate(both):
        key = f"{kernel}-{size}"
        if key in result.seconds:
            continue
        if size != SIZE and result.seconds.get(f"{kernel}-{SIZE}", math.inf) > LARGE_S:
            continue
        say(f"kernel {kernel}", number, len(both))
        try:
            wanted_s = FULL_KERNEL_S if full else KERNEL_S
            seconds, load = kernel_seconds(suite, kernel, wanted_s, size)
        except BerthError as error:
            result = result.model_copy(update={"problems": (*result.problems, error.message)})
            continue
        loads.append(load)
        result = result.model_copy(
            update={
                "seconds": {**result.seconds, key: seconds},
                "other_load": statistics.fmean(loads),
            }
        )
        write_json(into, result)
    result = result.model_copy(
        update={"complete": bool(result.seconds), "platform": _with_times(result)}
    )
    write_json(into, result)
    return result


def _large(suite: Suite) -> tuple[str, ...]:
    """Return kernels that are timed at the large size, too, if they do not take too long."""
    work = suite.work(LARGE_SIZE)
    return tuple(
        kernel.name
        for kernel in suite.kernels
        if kernel.group in LOOPS and work[kernel.name].bytes_allocated <= LARGE_BYTES
    )


def _with_times(measurement: NodeMeasurement) -> Platform | None:
    """Return the platform with the kernels' times in its signature."""
    if measurement.platform is None:
        return None
    times = {f"{key.replace('-', '@', 1)}x1": s for key, s in measurement.seconds.items()}
    signature = measurement.platform.signature.model_copy(update={"kernel_times_s": times})
    return measurement.platform.model_copy(update={"signature": signature})


def kernel_seconds(
    suite: Suite, kernel: str, wanted_s: float, size: int = SIZE
) -> tuple[float, float]:
    """Return seconds of one repetition on one core, and the cores that others took meanwhile."""
    fraction = SAMPLED_FRACTION if suite.kernel(kernel).sampled else 1.0
    trial = suite.run(kernel, size, reps=1, fraction=fraction)
    each_s = max(trial.rep_s * trial.fraction, 1e-6)
    reps = int(min(max(wanted_s / each_s, REPS[0]), REPS[1]))
    before, begun = sum(machine_ticks().values()), time.monotonic()
    run = suite.run(kernel, size, reps=reps, fraction=fraction)
    busy_s = (sum(machine_ticks().values()) - before) / TICKS_PER_S
    others = busy_s / max(time.monotonic() - begun, 1e-3) - 1.0
    block = max(1, len(run.seconds) // BLOCKS)
    starts = range(0, len(run.seconds) - block + 1, block)
    means = [statistics.fmean(run.seconds[i : i + block]) for i in starts]
    return statistics.median(means) / run.fraction, max(0.0, others)


def doubts(measurement: NodeMeasurement) -> tuple[str, ...]:
    """Say what to know before these times are used, one sentence each."""
    if (
        measurement.platform is None
        or measurement.other_load <= MOST_OTHER_LOAD * measurement.platform.cores
    ):
        return ()
    return (
        f"other programs took {measurement.other_load:.1f} cores of {measurement.node} meanwhile: "
        "its times are too long by an unknown part",
    )
