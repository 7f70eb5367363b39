"""Measure a node for calibration: the machine benchmark and times of the reference kernels.

The result is one JSON file per node (``berth.node/1``). It is rewritten after each step, so that
an interrupted measurement resumes where it stopped. A kernel's time is for one repetition on one
core: its processor time, divided by the share of a core's time that the node grants. Other work on
the node and the moments at which a core is throttled hardly change it.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from berth.pilot.bench import ANCHORS, SAMPLED_FRACTION, measure_signature, platform_here
from berth.pilot.documents import Document, read_json, write_json
from berth.pilot.errors import BerthError, UsageError
from berth.pilot.gpu.bench import kernel_times, measured_platform
from berth.pilot.gpu.device import Gpu
from berth.pilot.host import cpu_model, gpu_driver
from berth.pilot.platform import Platform
from berth.pilot.profile import Positive
from berth.pilot.progress import Say, say_nothing
from berth.pilot.suite import Suite

NODE_SCHEMA = "berth.node/1"
SIZE = 1_048_576
"""Problem size of the kernels, the same as in the counters that Berth ships."""
LARGE_SIZE = 8_388_608
"""Second problem size, larger than most last-level caches, for some loop kernels."""
LOOPS = frozenset(("Algorithm", "Apps", "Basic", "Lcals", "Polybench", "Stream"))
"""Groups of the suite whose kernels are timed at ``LARGE_SIZE``, too."""
LARGE_S = 0.05
"""Longest time at ``SIZE`` of a kernel that is timed at ``LARGE_SIZE``, too."""
LARGE_BYTES = 512 * 2**20
"""Largest memory of a kernel at ``LARGE_SIZE``."""
QUICK_KERNELS = (
    *ANCHORS, "Integer_MATCH", "Integer_QUICK_SORT", "Irregular_CHASE", "Irregular_INTERPRETER",
    "Single_GEMM", "Single_PAIRS",
)  # fmt: skip
MOST_BYTES = 200
"""Bytes of GPU memory that a kernel needs for each unit of its problem size, at most."""
KERNEL_S = 0.3
"""Total time of the repetitions of one kernel."""
FULL_KERNEL_S = 1.0
"""Total time of the repetitions of one kernel in a full measurement."""
REPS = (3, 400)
"""Smallest and largest number of repetitions."""
WAITING = "File"
"""Group of kernels that wait for a disk: their times are those by the clock."""


class NodeMeasurement(Document):
    """Holds what the benchmark kernels measured on one node of a site."""

    schema_: str = Field(default=NODE_SCHEMA, alias="schema")
    node: str = Field(min_length=1, max_length=256)
    """Name of the node in the scheduler."""
    host: str = ""
    kernel: str = ""
    """Operating system and release, as ``uname -sr``."""
    driver: str | None = None
    """Version of NVIDIA's kernel driver; None: not loaded."""
    processor: str = ""
    measured: str = ""
    """Time when the measurement began (ISO 8601, UTC)."""
    platform: Platform | None = None
    """The node's platform with its benchmark results; None: not benchmarked yet, or it failed."""
    seconds: dict[str, Positive] = Field(default_factory=dict, max_length=10_000)
    """Seconds of one repetition on one core, by kernel and size (``Stream_TRIAD-1048576``)."""
    problems: tuple[str, ...] = ()
    complete: bool = False


def kernel_release() -> str:
    """Return the operating system and release of this machine."""
    return f"{platform.system()} {platform.release()}"


def begin(into: Path, *, node: str) -> NodeMeasurement:
    """Return the node measurement to resume from the file ``into``, or a new empty measurement.

    The file is resumed if node, host, kernel and GPU driver are still the same.
    """
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

    The result is written into ``into`` after each step. Failed measurements raise nothing; they
    are listed in ``problems`` of the result. Raises UsageError if ``into`` cannot be written.
    """
    result = begin(into, node=node)
    try:
        suite = build()
        wanted = [kernel.name for kernel in suite.chosen(kernels)]
        if suite.left_out:
            result = result.model_copy(update={"problems": (suite.left_out,)})
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
    share = (result.platform and result.platform.signature.processor_share) or 1.0
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
            seconds = kernel_seconds(suite, kernel, wanted_s, size=size, share=share)
        except BerthError as error:
            result = result.model_copy(update={"problems": (*result.problems, error.message)})
            continue
        result = result.model_copy(update={"seconds": {**result.seconds, key: seconds}})
        write_json(into, result)
    result = result.model_copy(
        update={"complete": bool(result.seconds), "platform": _with_times(result)}
    )
    write_json(into, result)
    return result


def measure_gpu_node(
    into: Path,
    gpus: Callable[[], AbstractContextManager[Gpu]],
    base_of: Callable[[str], Platform],
    *,
    name: str,
    node: str,
    say: Say = say_nothing,
) -> NodeMeasurement:
    """Benchmark a GPU of this node as platform ``name`` and time reference kernels on it.

    ``gpus`` opens the GPU; ``base_of`` gives the platform that the driver's name of a GPU means,
    whose rates are replaced. The result is written into ``into``. A failed measurement raises
    nothing; ``problems`` of the result says why.
    """
    result = begin(into, node=node)
    try:
        with gpus() as gpu:
            base = base_of(gpu.name).model_copy(update={"name": name})
            measured = measured_platform(gpu, base, say=say)
            fitting = [size for size in (SIZE, LARGE_SIZE) if MOST_BYTES * size < gpu.memory_bytes]
            seconds = kernel_times(gpu, fitting, say=say)
    except BerthError as error:
        problem = f"{error.message} ({error.hint})" if error.hint else error.message
        result = result.model_copy(update={"problems": (problem,)})
    else:
        result = result.model_copy(
            update={"platform": measured, "seconds": seconds, "complete": True}
        )
        result = result.model_copy(update={"platform": _with_times(result)})
    write_json(into, result)
    return result


def _large(suite: Suite) -> tuple[str, ...]:
    """Return the names of loop kernels that fit in ``LARGE_BYTES`` at ``LARGE_SIZE``."""
    work = suite.work(LARGE_SIZE)
    return tuple(
        kernel.name
        for kernel in suite.kernels
        if kernel.group in LOOPS and work[kernel.name].bytes_allocated <= LARGE_BYTES
    )


def _with_times(measurement: NodeMeasurement) -> Platform | None:
    """Return the measurement's platform with the kernel times in its signature, or None."""
    if measurement.platform is None:
        return None
    times = {f"{key.replace('-', '@', 1)}x1": s for key, s in measurement.seconds.items()}
    signature = measurement.platform.signature.model_copy(update={"kernel_times_s": times})
    return measurement.platform.model_copy(update={"signature": signature})


def kernel_seconds(suite: Suite, kernel: str, wanted_s: float, *, size: int, share: float) -> float:
    """Return a kernel's seconds per repetition.

    ``wanted_s``: total time of the repetitions; ``share``: the part of a core's time that the node
    grants. The kernel runs on one core.
    """
    fraction = SAMPLED_FRACTION if suite.kernel(kernel).sampled else 1.0
    trial = suite.run(kernel, size, reps=1, fraction=fraction)
    each_s = max(trial.rep_s * trial.fraction, 1e-6)
    reps = int(min(max(wanted_s / each_s, REPS[0]), REPS[1]))
    run = suite.run(kernel, size, reps=reps, fraction=fraction)
    waits = suite.kernel(kernel).group == WAITING
    total_s = sum(run.seconds) if waits else run.processor_s / share
    return total_s / len(run.seconds) / run.fraction
