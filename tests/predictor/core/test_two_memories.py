"""Host memory and GPU memory of a program: measured each, assumed only where it ran on CPUs."""

from __future__ import annotations

import pytest
from toy_profiles import profile

from berth.pilot.profile import Measurement, Profile, Quality, Target
from berth.predictor.core.prediction import Interval, MemoryUse
from berth.predictor.core.program_memory import memory_on, ran_on_gpu
from berth.predictor.core.sizes import growth_to
from berth.predictor.families.program.problem_size import size_growth
from berth.predictor.hardware import platforms

GIB = 2.0**30
KNOWN = platforms.load()
CPU, V100, H100 = KNOWN["quartz"], KNOWN["lassen-v100"], KNOWN["h100-80gb"]


def piloted(
    *, gpus: int = 0, gpu_gib: float | None = None, targets: tuple[Target, ...] = (Target.CPU,)
) -> Profile:
    """A program of 60 GiB on the host, with a problem size."""
    own = profile(peak=60 * GIB)
    counters = dict(own.counters)
    if gpu_gib is not None:
        counters["gpu_memory_bytes"] = Measurement(
            value=gpu_gib * GIB, source="nvml", quality=Quality.MEASURED
        )
    runs_on = own.runs_on.model_copy(update={"gpus": gpus, "targets": targets})
    workload = own.workload.model_copy(update={"size": 100.0})
    return own.model_copy(update={"counters": counters, "runs_on": runs_on, "workload": workload})


def test_measured_gpu_memory_is_taken_and_the_hosts_says_nothing_of_it() -> None:
    own = piloted(gpus=1, gpu_gib=3.0)
    memory = memory_on(H100, own, size_growth(own), V100)
    assert memory.gpu_bytes == Interval(2.4 * GIB, 3 * GIB, 3.75 * GIB)
    assert memory.host_bytes is not None
    assert memory.host_bytes.mid == 60 * GIB
    assert memory_on(CPU, own, size_growth(own), V100) == MemoryUse(memory.host_bytes)


@pytest.mark.parametrize("gpu_gib", [None, 0.0])
def test_a_run_on_a_gpu_without_a_measured_peak_shows_that_it_fits_there(
    gpu_gib: float | None,
) -> None:
    own = piloted(gpus=1, gpu_gib=gpu_gib)
    memory = memory_on(H100, own, size_growth(own), V100)
    assert memory.gpu_bytes is None
    assert memory.gpu_held_in_bytes == V100.memory_bytes
    assert memory.fits_gpus(V100.memory_bytes)
    assert not memory.fits_gpus(V100.memory_bytes / 2)
    assert not memory.fits_gpus(V100.memory_bytes / 2, gpus=4), "each of them must hold it"
    nowhere = memory_on(H100, own, size_growth(own), None)
    assert not nowhere.fits_gpus(H100.memory_bytes)


def test_gpu_memory_is_assumed_from_the_hosts_for_programs_that_ran_on_cpus_only() -> None:
    own = piloted()
    memory = memory_on(H100, own, size_growth(own), CPU)
    assert memory.gpu_bytes is not None
    assert memory.host_bytes is not None
    assert memory.gpu_bytes.low < memory.host_bytes.low
    assert memory.gpu_bytes.high > memory.host_bytes.high
    assert not ran_on_gpu(own)
    assert ran_on_gpu(piloted(targets=(Target.CUDA,))), "it has no other place to run"


def test_each_memory_grows_with_the_size_by_its_own_runs() -> None:
    own = piloted(gpus=1, gpu_gib=3.0)
    sizes = size_growth(own)
    here = memory_on(V100, own, sizes, V100)
    there = growth_to(sizes, 200.0).memory(here)
    assert there.gpu_bytes is not None
    assert there.gpu_bytes.mid == pytest.approx(6 * GIB)
    assert there.gpu_held_in_bytes is None, "it ran there at a smaller size"
    far = growth_to(sizes, 5_000.0).memory(here)
    assert far == MemoryUse()
    smaller = growth_to(sizes, 50.0).memory(here)
    assert smaller.gpu_held_in_bytes == V100.memory_bytes


def test_more_nodes_move_both() -> None:
    need = Interval(1.0, 2.0, 3.0)
    twice = MemoryUse(need, need.scaled(2), 7.0).times(Interval(1.0, 1.5, 2.0))
    assert twice == MemoryUse(Interval(1.0, 3.0, 6.0), Interval(2.0, 6.0, 12.0), 7.0)
    assert MemoryUse(need).scaled(2) == MemoryUse(need.scaled(2))
