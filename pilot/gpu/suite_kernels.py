"""GPU versions of reference kernels, and how long they take.

Names, sizes and arrays are those of the reference suite (``pilot/kernels``), whose counters Berth
ships, so that the times calibrate predictions of programs on the GPU. Kernels that reduce their
data to one value fetch it, as a program would.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from berth.pilot.gpu.device import Array, Gpu

Start = Callable[[], None]
"""Starts one repetition of a kernel."""
Prepare = Callable[[Gpu, int], Start]
"""Allocates a kernel's arrays at a problem size and returns what starts a repetition."""
BLOCKS = 5
"""Number of blocks of repetitions. The result is the median over blocks of the mean of a block."""
REPS = (3, 400)
"""Smallest and largest number of repetitions in a block."""
JACOBI_STEPS = 40
GEMM_INNER = 1200


def _stream(kernel: str, arrays: int) -> Prepare:
    def prepare(gpu: Gpu, n: int) -> Start:
        held = [gpu.array(n) for _ in range(arrays)]
        return lambda: gpu.launch(kernel, n, n, *held)

    return prepare


def _reduced(kernel: str, arrays: int) -> Prepare:
    def prepare(gpu: Gpu, n: int) -> Start:
        held: list[Array] = [gpu.array(n) for _ in range(arrays)]
        result = gpu.array(1)

        def start() -> None:
            gpu.launch(kernel, n, n, *held, result)
            gpu.first(result)

        return start

    return prepare


def _hydro_1d(gpu: Gpu, n: int) -> Start:
    x, y, z = (gpu.array(n + 12) for _ in range(3))
    return lambda: gpu.launch("hydro_1d", n, n, x, y, z)


def _jacobi_2d(gpu: Gpu, target: int) -> Start:
    n = math.isqrt(target) + 1
    a, b = gpu.array(n * n), gpu.array(n * n)

    def start() -> None:
        for _ in range(JACOBI_STEPS):
            gpu.launch("jacobi_2d", (n - 2) * (n - 2), n, a, b)
            gpu.launch("jacobi_2d", (n - 2) * (n - 2), n, b, a)

    return start


def _gemm(gpu: Gpu, target: int) -> Start:
    n = math.isqrt(target) + 1
    a, b, c = gpu.array(n * GEMM_INNER), gpu.array(n * GEMM_INNER), gpu.array(n * n)
    return lambda: gpu.launch("gemm", n * n, n, GEMM_INNER, a, b, c)


def _side(target: int) -> int:
    """Return the largest number of zones each way of which there are at most ``target``."""
    side = round(math.cbrt(target))
    return side - 1 if side**3 > target else side


def _nodal(gpu: Gpu, target: int) -> Start:
    side = _side(target)
    zones, points = side**3, (side + 4) ** 3
    x, volume, listed = gpu.array(points), gpu.array(points), gpu.array(zones)
    gpu.launch("list_zones", zones, zones, side, listed)
    return lambda: gpu.launch("nodal", zones, zones, side, x, volume, listed)


def _vol3d(gpu: Gpu, target: int) -> Start:
    side = _side(target)
    row = side + 4
    points, edge = row**3, row * row + row + 1
    x, y, z, volume = (gpu.array(points) for _ in range(4))
    return lambda: gpu.launch("vol3d", points - 2 * edge, points - 2 * edge, side, x, y, z, volume)


KERNELS: Mapping[str, Prepare] = {
    "Stream_TRIAD": _stream("triad", 3),
    "Stream_DOT": _reduced("dot", 2),
    "Algorithm_MEMCPY": _stream("copy", 2),
    "Basic_DAXPY": _stream("daxpy", 2),
    "Basic_DAXPY_ATOMIC": _stream("daxpy_atomic", 2),
    "Basic_IF_QUAD": _stream("if_quad", 5),
    "Basic_PI_ATOMIC": _reduced("pi_atomic", 0),
    "Basic_TRAP_INT": _reduced("trap_int", 0),
    "Lcals_HYDRO_1D": _hydro_1d,
    "Lcals_PLANCKIAN": _stream("planckian", 5),
    "Polybench_JACOBI_2D": _jacobi_2d,
    "Polybench_GEMM": _gemm,
    "Apps_NODAL_ACCUMULATION_3D": _nodal,
    "Apps_VOL3D": _vol3d,
}


def kernel_seconds(gpu: Gpu, kernel: str, size: int, wanted_s: float) -> float:
    """Return a kernel's seconds per repetition, measured for about ``wanted_s`` seconds."""
    start = KERNELS[kernel](gpu, size)
    try:
        return repeated(gpu, start, wanted_s)
    finally:
        gpu.wait()
        gpu.free_all()


def repeated(gpu: Gpu, start: Start, wanted_s: float) -> float:
    """Return the seconds of one ``start`` among others: the median over blocks of their mean."""
    _block(gpu, start, 1)  # compiles nothing any more, and touches all memory
    once_s = max(_block(gpu, start, REPS[0]), 1e-7)
    reps = int(min(max(wanted_s / BLOCKS / once_s, REPS[0]), REPS[1]))
    means: Sequence[float] = [_block(gpu, start, reps) for _ in range(BLOCKS)]
    return statistics.median(means)


def _block(gpu: Gpu, start: Start, reps: int) -> float:
    gpu.wait()
    begun = time.perf_counter()
    for _ in range(reps):
        start()
    gpu.wait()
    return (time.perf_counter() - begun) / reps
