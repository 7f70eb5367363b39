"""The benchmark of a GPU: its rates as a Signature, and times of reference kernels.

What it measures replaces the figures of the data sheet; what it does not (capacities, the rate of
the first-level cache) stays as in the platform that it starts from.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from berth.pilot.errors import PilotError
from berth.pilot.gpu.device import Gpu
from berth.pilot.gpu.suite_kernels import KERNELS, Start, kernel_seconds, repeated
from berth.pilot.platform import MemoryLevel, Platform, SignatureSource
from berth.pilot.progress import Say, say_nothing

STEP_S = 0.2
"""Seconds of each measurement."""
LARGE_BYTES = 2**30
"""Bytes of one array that no cache holds; at most an eighth of the GPU's memory."""
SWEEP = 64
"""Times that a kernel goes over a working set in the second-level cache."""
THREADS = 2**20
FMA_STEPS = 4096
FMA_FLOPS = 2 * 8
"""Operations of a thread in one step: eight chains of a multiply-add."""
ATOMICS = 2**20
"""Updates of one address in a launch."""
MANY = 2**23
"""Threads that update eight addresses each."""


def measured_platform(gpu: Gpu, base: Platform, *, say: Say = say_nothing) -> Platform:
    """Return the platform ``base`` with the rates measured on ``gpu`` (about two seconds).

    Raises PilotError where the driver fails, or where a time is not possible.
    """
    steps = _GpuMeasurements(gpu, say)
    old = base.signature
    dram = steps.bandwidth(min(LARGE_BYTES, gpu.memory_bytes // 8))
    f64 = steps.flops("fma_f64")
    f32 = steps.flops("fma_f32")
    signature = old.model_copy(
        update={
            "source": SignatureSource.BENCHMARK,
            "measured_on": f"{datetime.now(UTC).date().isoformat()}; berth pilot bench --gpu; "
            f"{gpu.name}; capacities and the first-level cache: {old.measured_on}"[:1000],
            "flops_f64_per_s": f64,
            "flops_f32_per_s": f32,
            "memory": tuple(_levels(old.memory, dram, steps)),
            "launch_overhead_s": steps.launch_s(),
            "atomics_per_s": steps.rate("one_address", ATOMICS, 1),
            "scattered_atomics_per_s": 8 * steps.rate("many_addresses", MANY, MANY + 8),
            "reduction_total_bytes_per_s": steps.reduction(),
        }
    )  # fmt: skip
    return base.model_copy(update={"signature": signature})


def kernel_times(gpu: Gpu, sizes: Sequence[int], *, say: Say = say_nothing) -> dict[str, float]:
    """Return seconds of one repetition by kernel and size, such as ``Stream_TRIAD-1048576``."""
    both = [(kernel, size) for size in sizes for kernel in KERNELS]
    seconds = {}
    for number, (kernel, size) in enumerate(both):
        say(f"kernel {kernel}", number, len(both))
        seconds[f"{kernel}-{size}"] = kernel_seconds(gpu, kernel, size, STEP_S)
    return seconds


def _levels(
    old: Sequence[MemoryLevel], dram_bytes_per_s: float, steps: _GpuMeasurements
) -> list[MemoryLevel]:
    measured = {"dram": dram_bytes_per_s}
    l2 = next((level for level in old if level.level == "l2"), None)
    if l2 is not None:
        # A quarter of the cache for each of three arrays leaves room for what else is in it.
        measured["l2"] = max(steps.cached(int(l2.capacity_bytes) // 4), dram_bytes_per_s)
    return [
        level.model_copy(
            update={"total_bytes_per_s": measured.get(level.level, level.total_bytes_per_s)}
        )
        for level in old
    ]


class _GpuMeasurements:
    """The measurements of one GPU."""

    def __init__(self, gpu: Gpu, say: Say) -> None:
        self._gpu, self._say, self._done = gpu, say, 0

    def launch_s(self) -> float:
        """Return the seconds from one kernel's start to the next one's."""
        return self._seconds("launches", lambda: self._gpu.launch("empty", 1, 1))

    def bandwidth(self, array_bytes: int) -> float:
        """Return bytes per second of the STREAM triad in main memory."""
        n = array_bytes // 8
        a, b, c = (self._gpu.array(n) for _ in range(3))
        seconds = self._seconds("bandwidth", lambda: self._gpu.launch("triad", n, n, a, b, c))
        return 24 * n / seconds

    def cached(self, array_bytes: int) -> float:
        """Return bytes per second of a triad whose arrays stay in the second-level cache."""
        n = array_bytes // 8
        a, b, c = (self._gpu.array(n) for _ in range(3))
        seconds = self._seconds(
            "cache", lambda: self._gpu.launch("repeated_triad", n, n, SWEEP, a, b, c)
        )
        return 24 * n * SWEEP / seconds

    def flops(self, kernel: str) -> float:
        """Return operations per second of fused multiply-adds."""
        out = self._gpu.array(THREADS)
        seconds = self._seconds(
            kernel, lambda: self._gpu.launch(kernel, THREADS, THREADS, FMA_STEPS, out)
        )
        return FMA_FLOPS * FMA_STEPS * THREADS / seconds

    def rate(self, kernel: str, threads: int, addresses: int) -> float:
        """Return threads per second of a kernel on one array."""
        array = self._gpu.array(addresses)
        seconds = self._seconds(kernel, lambda: self._gpu.launch(kernel, threads, threads, array))
        return threads / seconds

    def reduction(self) -> float:
        """Return bytes per second of a dot product in main memory."""
        n = min(LARGE_BYTES, self._gpu.memory_bytes // 8) // 8
        a, b, result = self._gpu.array(n), self._gpu.array(n), self._gpu.array(1)
        seconds = self._seconds("reduction", lambda: self._gpu.launch("dot", n, n, a, b, result))
        return 16 * n / seconds

    def _seconds(self, step: str, start: Start) -> float:
        self._say(step, self._done, _STEPS)
        self._done += 1
        try:
            seconds = repeated(self._gpu, start, STEP_S)
        finally:
            self._gpu.wait()
            self._gpu.free_all()
        if seconds <= 0:
            raise PilotError(f"the benchmark of {step} took no time: its clock cannot be used")
        return seconds


_STEPS = 8
"""Number of measurements, for the progress shown."""
