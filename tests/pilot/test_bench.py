"""The machine benchmark: levels told apart by the machine's caches, a Signature that loads."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from berth.pilot import bench
from berth.pilot.documents import to_json
from berth.pilot.errors import PilotError
from berth.pilot.host import Cache, Topology, topology
from berth.pilot.platform import Platform, Signature, SignatureSource
from berth.pilot.suite import BenchResult, Suite, SweepPoint

KIB, MIB, GIB = 2**10, 2**20, 2**30
SIZES = [16 * KIB * 2**k for k in range(16)]
GENOA = Topology(8, 64 * GIB, (Cache(1, 32 * KIB, 8), Cache(2, MIB, 8), Cache(3, 32 * MIB, 1)))


def sweep(*steps: tuple[int, float]) -> list[SweepPoint]:
    """Points whose value is that of the first step whose capacity holds the working set."""
    return [
        SweepPoint(size, next(value for capacity, value in steps if size <= capacity))
        for size in SIZES
    ]


def test_each_level_gets_the_rate_of_its_working_sets() -> None:
    core = sweep((32 * KIB, 300e9), (MIB, 100e9), (32 * MIB, 50e9), (2**40, 20e9))
    total = sweep((256 * KIB, 2400e9), (8 * MIB, 800e9), (32 * MIB, 200e9), (2**40, 80e9))
    latency = sweep((32 * KIB, 1.0), (MIB, 4.0), (32 * MIB, 15.0), (2**40, 100.0))
    levels = {m.level: m for m in bench.memory_levels(GENOA, 8, core, total, latency)}
    assert list(levels) == ["l1", "l2", "l3", "dram"]
    assert [m.core_bytes_per_s for m in levels.values()] == [300e9, 100e9, 50e9, 20e9]
    assert [m.total_bytes_per_s for m in levels.values()] == [2400e9, 800e9, 200e9, 80e9]
    assert [m.latency_s for m in levels.values()] == pytest.approx([1e-9, 4e-9, 15e-9, 100e-9])
    assert levels["l2"].capacity_bytes == MIB  # a core's own
    assert levels["l3"].capacity_bytes == 32 * MIB  # everybody's
    assert levels["dram"].capacity_bytes == 64 * GIB


def test_without_known_caches_main_memory_has_the_rate_of_the_largest_working_set() -> None:
    points = sweep((32 * KIB, 200e9), (32 * MIB, 50e9), (2**40, 12e9))
    latency = sweep((32 * KIB, 1.2), (32 * MIB, 14.0), (2**40, 95.0))
    (only,) = bench.memory_levels(Topology(2, 16 * GIB, ()), 2, points, points, latency)
    assert (only.level, only.core_bytes_per_s, only.total_bytes_per_s) == ("dram", 12e9, 12e9)
    assert only.latency_s == pytest.approx(95e-9)


@pytest.mark.parametrize(
    ("l3", "memory", "largest"),
    [
        (Cache(3, 32 * MIB, 16), 512 * GIB, 2 * GIB),  # two EPYC 7763
        (Cache(3, 96 * MIB, 24), 768 * GIB, 16 * GIB),  # two EPYC 9684X
        (Cache(3, 32 * MIB, 1), 16 * GIB, 512 * MIB),
        (Cache(3, 96 * MIB, 24), 8 * GIB, 2 * GIB),  # a quarter of the memory
    ],
)
def test_working_sets_reach_main_memory_or_its_rate_is_unknown(
    l3: Cache, memory: int, largest: int
) -> None:
    cores = 8 * l3.instances
    machine = Topology(cores, memory, (Cache(1, 32 * KIB, cores), Cache(2, MIB, cores), l3))
    assert bench.largest_working_set(machine, cores) == largest
    assert bench.largest_working_set(machine, 1) == 512 * MIB
    sizes = [size for size in (MIB * 2**k for k in range(18)) if size <= largest]
    total = [SweepPoint(size, 2e12 if size <= l3.total_bytes else 350e9) for size in sizes]
    levels = bench.memory_levels(machine, cores, total, total, total)
    dram = [level.total_bytes_per_s for level in levels if level.level == "dram"]
    assert dram == ([350e9] if largest >= 4 * l3.total_bytes else [])


def test_a_rate_that_was_not_measured_is_not_invented(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PilotError, match="flops_f64"):
        bench._value(BenchResult("flops_f64", 1))


SMALL_CACHES = Topology(
    topology().cores, topology().memory_bytes, (Cache(1, 32 * KIB, 1), Cache(2, MIB, 1))
)
"""This machine with so little cache that main memory is reached soon."""


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rate for a few milliseconds: what a rate is called is tested, not its value."""

    def briefly(suite: Suite, what: str, threads: int = 1, **more: Any) -> BenchResult:
        return whole(suite, what, threads, **{**more, "seconds": 0.02})

    whole = Suite.bench
    monkeypatch.setattr(Suite, "bench", briefly)
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")  # other tests run on the same cores
    monkeypatch.setattr(bench, "ANCHORS", ("Stream_TRIAD", "Polybench_GEMM"))
    monkeypatch.setattr(bench, "QUICK_SIZES", (65_536,))
    monkeypatch.setattr(bench, "_SCALING_SIZE", 65_536)


@pytest.mark.slow
def test_this_machine_becomes_a_platform_document(suite: Suite, short: None) -> None:
    told: list[tuple[int, int]] = []
    signature = bench.measure_signature(
        suite,
        machine=SMALL_CACHES,
        progress=lambda _what, done, total: told.append((done, total)),
    )
    assert told == [(k, len(told)) for k in range(len(told))]
    here = bench.platform_here("here", signature)
    assert Platform.model_validate_json(to_json(here)) == here
    assert set(signature.kernel_times_s) == {"Stream_TRIAD@65536x1", "Polybench_GEMM@65536x1"}
    assert [m.level for m in signature.memory][-1] == "dram"
    assert all(m.latency_s for m in signature.memory)
    assert signature.thread_scaling[-1][0] == (here.cores if suite.openmp else 1)


@pytest.mark.slow
def test_wrong_kernels_cost_no_other_rate(suite: Suite, short: None) -> None:
    build = dataclasses.replace(suite.build, wrong=("Stream_TRIAD",), openmp_problem="no omp.h")
    right = tuple(kernel for kernel in suite.kernels if kernel.name != "Stream_TRIAD")
    signature = bench.measure_signature(Suite(build, right), machine=SMALL_CACHES)
    assert set(signature.kernel_times_s) == {"Polybench_GEMM@65536x1"}
    assert signature.thread_scaling == ()
    assert "gets them wrong on this machine: Stream_TRIAD" in signature.measured_on


@pytest.mark.slow
def test_without_openmp_the_platform_is_one_core(suite: Suite, short: None) -> None:
    build = dataclasses.replace(suite.build, openmp_problem="no omp.h")
    alone = dataclasses.replace(suite, build=build)
    signature: Signature = bench.measure_signature(alone, machine=SMALL_CACHES)
    assert signature.launch_overhead_s is None
    assert [threads for threads, _ in signature.thread_scaling] == [1]
    assert "no OpenMP" in signature.measured_on


def test_rates_of_a_node_with_a_quota_are_those_that_it_keeps_up() -> None:
    points = sweep((2**40, 10e9))
    found = Signature(
        source=SignatureSource.BENCHMARK,
        flops_f64_per_s=8e9,
        flops_f32_per_s=16e9,
        int_ops_core_per_s=4e9,
        memory=bench.memory_levels(Topology(1, GIB, ()), 1, points, points, points),
    )
    half = bench._sustained(found, 0.5)
    assert half.processor_share == 0.5
    assert (half.flops_f64_per_s, half.flops_f32_per_s, half.int_ops_core_per_s) == (4e9, 8e9, 2e9)
    assert half.memory[0].total_bytes_per_s == 5e9
    assert half.memory[0].latency_s == found.memory[0].latency_s
    whole = bench._sustained(found, 0.99)
    assert whole.processor_share == 1.0
    assert whole.flops_f64_per_s == 8e9
