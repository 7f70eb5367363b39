"""The GPU benchmark: kernels that compile without a GPU, and what is measured on a stand-in."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from warm_berth import run_berth

from berth.pilot.documents import read_json
from berth.pilot.errors import PilotError, ToolMissing, UsageError
from berth.pilot.gpu import device, libraries, suite_kernels
from berth.pilot.gpu.bench import kernel_times, measured_platform
from berth.pilot.gpu.compiled import compiled, source
from berth.pilot.gpu.device import Argument, Array, Gpu
from berth.pilot.gpu.libraries import CUDA, HIP
from berth.pilot.gpu.suite_kernels import KERNELS
from berth.pilot.node import (
    LARGE_SIZE,
    QUICK_KERNELS,
    SIZE,
    NodeMeasurement,
    measure_gpu_node,
)
from berth.pilot.platform import SignatureSource
from berth.plugin.cli.pilot.gpu import base_platform
from berth.predictor.families.program.estimate import CALIBRATED_KERNELS
from berth.predictor.families.program.suite import suite_profiles
from berth.predictor.hardware import platforms

GIB = 2**30
VOLUME = 0.3 * 0.2 * 0.1
"""Of a zone of 0.3 x 0.2 x 0.1, as `berth-kernels check` has them."""


def _has_nvrtc() -> bool:
    try:
        libraries.load_compiler(CUDA)
    except ToolMissing:
        return False
    return True


nvrtc = pytest.mark.skipif(not _has_nvrtc(), reason="needs NVRTC: pip install 'berth[gpu]'")


class Clock:
    """A clock that only the stand-in GPU moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def perf_counter(self) -> float:
        """Return the seconds so far."""
        return self.now_s


class StandIn:
    """A GPU of known rates: 2 TB/s of memory, 6 TB/s of cache, 10 and 20 Tflop/s, 2 us a launch."""

    def __init__(self, clock: Clock, name: str = "NVIDIA H100 80GB HBM3") -> None:
        self.name, self.memory_bytes, self._clock = name, 80 * GIB, clock
        self.held: list[Array] = []
        self.launched: list[str] = []

    def array(self, count: int) -> Array:
        self.held.append(Array(4096 * (len(self.held) + 1), count))
        return self.held[-1]

    def launch(self, kernel: str, threads: int, *arguments: Argument) -> None:
        self.launched.append(kernel)
        moved = 8 * sum(a.count for a in arguments if isinstance(a, Array))
        took = {
            "empty": 0.0,
            "fma_f64": threads * 4096 * 16 / 10e12,
            "fma_f32": threads * 4096 * 16 / 20e12,
            "one_address": threads / 1e9,
            "many_addresses": 8 * threads / 250e9,
            "repeated_triad": moved * 64 / 6e12,
        }.get(kernel, moved / 2e12)
        self._clock.now_s += max(2e-6, took)

    def wait(self) -> None:
        pass

    def first(self, _array: Array) -> float:
        self._clock.now_s += 10e-6
        return 0.0

    def free_all(self) -> None:
        self.held.clear()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    clock = Clock()
    monkeypatch.setattr(suite_kernels, "time", clock)
    return StandIn(clock)


@nvrtc
@pytest.mark.parametrize("architecture", ["compute_60", "compute_90"])
def test_the_wheels_kernels_compile_to_ptx_without_a_gpu(architecture: str) -> None:
    ptx = compiled(CUDA, architecture).decode()
    entries = {line.split()[2].split("(")[0] for line in ptx.splitlines() if ".entry" in line}
    assert {"empty", "repeated_triad", "fma_f64", "one_address", "nodal", "vol3d"} <= entries
    assert "atom.global.add.f64" in ptx or "red.global.add.f64" in ptx


@nvrtc
def test_machine_code_is_made_for_a_card(gpu: StandIn) -> None:
    assert compiled(CUDA, "sm_80").startswith(b"\x7fELF")


@nvrtc
def test_a_kernel_that_does_not_compile_is_named_by_the_compiler() -> None:
    with pytest.raises(PilotError, match=r"NVRTC does not compile.*error") as raised:
        compiled(CUDA, "compute_70", "__global__ void half( {")
    assert "compute_70" in raised.value.message


@pytest.mark.parametrize("vendor", [CUDA, HIP])
def test_without_the_compiler_the_way_out_is_said(
    vendor: libraries.Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "_paths", lambda *_: iter(["/nowhere/lib.so"]))
    with pytest.raises(ToolMissing, match=vendor.name) as raised:
        compiled(vendor, "sm_80")
    assert "berth[gpu]" in (raised.value.hint or "")
    assert "data sheet" in (raised.value.hint or "")


def test_every_timed_kernel_is_one_whose_counters_are_shipped() -> None:
    assert all(f"{kernel}-{SIZE}" in suite_profiles() for kernel in KERNELS)
    assert len(KERNELS.keys() & set(QUICK_KERNELS)) >= CALIBRATED_KERNELS


def test_the_rates_are_those_of_the_gpu(gpu: StandIn) -> None:
    base = platforms.shipped()["h100-80gb"]
    signature = measured_platform(gpu, base).signature
    assert signature.source is SignatureSource.BENCHMARK
    assert signature.launch_overhead_s == pytest.approx(2e-6)
    assert signature.flops_f64_per_s == pytest.approx(10e12)
    assert signature.flops_f32_per_s == pytest.approx(20e12)
    assert signature.scattered_atomics_per_s == pytest.approx(250e9)
    assert signature.atomics_per_s == pytest.approx(1e9)
    levels = {level.level: level.total_bytes_per_s for level in signature.memory}
    old = {level.level: level for level in base.signature.memory}
    assert levels["dram"] == pytest.approx(2e12)
    assert levels["l2"] == pytest.approx(6e12)
    assert levels["l1"] == old["l1"].total_bytes_per_s
    assert not gpu.held


def test_kernels_that_reduce_fetch_their_result(gpu: StandIn) -> None:
    seconds = kernel_times(gpu, [SIZE])
    assert set(seconds) == {f"{kernel}-{SIZE}" for kernel in KERNELS}
    moved = 16 * SIZE / 2e12
    assert seconds[f"Stream_DOT-{SIZE}"] == pytest.approx(10e-6 + moved, rel=0.01)
    assert seconds[f"Polybench_JACOBI_2D-{SIZE}"] > 79 * 2e-6
    assert not gpu.held


def test_a_clock_that_stands_still_is_an_error(
    gpu: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite_kernels, "time", Clock())
    with pytest.raises(PilotError, match="no time"):
        measured_platform(gpu, platforms.shipped()["h100-80gb"])


@pytest.mark.parametrize(
    ("name", "platform"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-80gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100-40gb-mig-1g.5gb"),
        ("AMD Instinct MI300A", "mi300a-128gb"),
        ("Tesla P4", "p4-8gb"),
    ],
)
def test_the_drivers_name_means_a_platform(name: str, platform: str) -> None:
    assert base_platform(name).name == platform


@pytest.mark.parametrize("name", ["NVIDIA Unheard-Of 9000", "NVIDIA H100 80GB HBM3 MIG 9g.9gb"])
def test_a_gpu_that_nothing_is_known_of_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as raised:
        base_platform(name)
    assert raised.value.hint


def test_a_node_measurement_holds_platform_and_times(gpu: StandIn, tmp_path: Path) -> None:
    @contextmanager
    def opened() -> Iterator[Gpu]:
        yield gpu

    into = tmp_path / "node.json"
    result = measure_gpu_node(into, opened, base_platform, name="our-h100", node="g1")
    assert result == read_json(into, NodeMeasurement)
    assert result.complete
    assert result.platform is not None
    assert result.platform.name == "our-h100"
    assert result.platform.is_gpu
    assert f"Stream_TRIAD-{LARGE_SIZE}" in result.seconds
    assert f"Stream_TRIAD@{SIZE}x1" in result.platform.signature.kernel_times_s


def test_a_node_without_a_gpu_says_so_in_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "_paths", lambda *_: iter(()))
    into = tmp_path / "node.json"
    result = measure_gpu_node(into, device.opened, base_platform, name="our-h100", node="g1")
    assert not result.complete
    assert "GPU driver" in result.problems[0]


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="needs a machine without a GPU")
@pytest.mark.parametrize(
    "words", [["bench", "--gpu", "0"], ["node", "--gpu", "--name", "x", "--into", "node.json"]]
)
def test_the_commands_end_with_a_sentence_where_there_is_no_gpu(
    words: list[str], tmp_path: Path
) -> None:
    done = run_berth("pilot", *words, cwd=tmp_path)
    assert done.returncode == 1
    assert "GPU driver" in done.stderr
    assert "Traceback" not in done.stderr


class Library:
    """A driver's library that remembers its calls; ``answers`` writes through their pointers."""

    def __init__(self, *, fails: str = "", count: int = 1) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self._fails, self._count = fails, count

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append((name, arguments))
            if name == "cuDeviceGetCount":
                arguments[0]._obj.value = self._count
            if name == "cuDeviceGetName":
                arguments[0].value = b"NVIDIA Stand-In"
            if name == "cuDeviceGetAttribute":
                arguments[0]._obj.value = {75: 9, 76: 0}[arguments[1]]
            if name == "cuMemAlloc_v2":
                arguments[0]._obj.value = 0x7000
            if name == "cuLaunchKernel":
                pointers = arguments[9]
                self.launched = [
                    ctypes.cast(pointer, ctypes.POINTER(ctypes.c_int64))[0] for pointer in pointers
                ]
            return 700 if name == self._fails else 0

        return call


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    asked: list[str | None] = []

    def code(_vendor: object, architecture: str | None) -> bytes:
        asked.append(architecture)
        return b"code"

    monkeypatch.setattr(device, "compiled", code)
    return asked


def test_arguments_reach_the_driver_as_the_kernel_takes_them(no_compiler: list[str | None]) -> None:
    library = Library()
    gpu = Gpu(CUDA, library, 0)
    array = gpu.array(10)
    gpu.launch("daxpy", 1000, 1000, array, array)
    assert no_compiler == ["sm_90"]
    assert library.launched == [1000, 0x7000, 0x7000]
    (blocks,) = [call[1][1] for call in library.calls if call[0] == "cuLaunchKernel"]
    assert blocks == 4
    gpu.free_all()
    assert [name for name, _ in library.calls].count("cuMemFree_v2") == 1


def test_a_failing_driver_is_an_error_with_its_number(no_compiler: list[str | None]) -> None:
    gpu = Gpu(CUDA, Library(fails="cuMemAlloc_v2"), 0)
    with pytest.raises(PilotError, match="cuMemAlloc_v2 returned 700"):
        gpu.array(10)


@pytest.mark.parametrize(
    ("library", "number", "kind", "words"),
    [
        (Library(count=0), 0, PilotError, "no GPU that can be used"),
        (Library(fails="cuInit"), 0, PilotError, "status 700"),
        (Library(count=2), 2, UsageError, "there is no GPU 2"),
    ],
)
def test_no_gpu_or_no_such_gpu(
    library: Library,
    number: int,
    kind: type[Exception],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    no_compiler: list[str | None],
) -> None:
    monkeypatch.setattr(device, "load_driver", lambda: (CUDA, library))
    with pytest.raises(kind, match=words), device.opened(number):
        pass


_HOST = r"""
#include <cmath>
#include <cstdio>
#include <vector>
using std::exp;
using std::sqrt;
#define __global__
#define __device__ static
#define __shared__ static
struct { long long x; } blockIdx, threadIdx, blockDim = {1}, gridDim = {1};
static void __syncthreads() {}
template <class T> static void atomicAdd(T *at, T value) { *at += value; }
"""
_MAIN = r"""
#define RUN(n, call) for (blockIdx.x = 0; blockIdx.x < (n); blockIdx.x++) call
typedef std::vector<double> reals;
int main()
{
    const whole side = 5, row = side + 4, points = row * row * row, zones = side * side * side;
    const whole edge = row * row + row + 1;
    reals x(points), y(points), z(points), volume(points), sum(points), ones(points, 1.0);
    for (whole i = 0; i < points; i++) {
        x[i] = 0.3 * (double)(i % row), y[i] = 0.2 * (double)(i / row % row);
        z[i] = 0.1 * (double)(i / row / row);
    }
    std::vector<whole> listed(zones);
    RUN(zones, list_zones(zones, side, listed.data()));
    RUN(zones, nodal(zones, side, sum.data(), ones.data(), listed.data()));
    const whole inner = points - 2 * edge;
    RUN(inner, vol3d(inner, side, x.data(), y.data(), z.data(), volume.data()));
    double added = 0.0;
    for (double value : sum)
        added += value;
    reals from(36, 1.0), to(36, 0.0), A(4 * 1200, 1.0), B(1200 * 2, 1.0), C(4, 0.0);
    RUN(16, jacobi_2d(6, from.data(), to.data()));
    RUN(4, gemm(2, 1200, A.data(), B.data(), C.data()));
    double inside = 0.0;
    for (double value : to)
        inside += value;
    reals a(100, 0.0), b(100, 1.0), c(100, 1.0);
    RUN(128, repeated_triad(100, 3, a.data(), b.data(), c.data()));
    double triads = 0.0;
    for (double value : a)
        triads += value;
    printf("%g %g %g %g %g %g\n", added, sum[listed[62]], volume[listed[62]], inside, C[3], triads);
}
"""


def test_the_kernels_compute_what_the_suites_do(tmp_path: Path) -> None:
    """Run on the CPU, one thread after the other: each zone's eighths, a box's volume, ..."""
    program, binary = tmp_path / "kernels.cpp", tmp_path / "kernels"
    program.write_text(_HOST + source() + _MAIN)
    subprocess.run(["g++", "-O1", "-o", binary, program], check=True)
    answer = subprocess.run([binary], check=True, capture_output=True, text=True)
    added, middle, volume, inside, product, triads = map(float, answer.stdout.split())
    assert added == pytest.approx(5**3)  # every zone gives its one unit to its nodes
    assert middle == pytest.approx(1.0)  # a node inside gets an eighth of each of eight zones
    assert volume == pytest.approx(VOLUME)
    assert inside == pytest.approx(16)
    assert product == pytest.approx(0.62 * 1200)
    assert triads == pytest.approx(162)
