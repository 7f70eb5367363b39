"""The roofline prior says what physics says, on every platform."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_profiles import profile

from berth.pilot.errors import UsageError
from berth.pilot.profile import Profile, ScalingPoint
from berth.predictor.core.prediction import Bound
from berth.predictor.families.program.amdahl import ThreadScaling, least_cores
from berth.predictor.families.program.roofline import thread_scaling, times, traffic_bytes
from berth.predictor.families.program.work import work_of
from berth.predictor.hardware import platforms
from berth.predictor.hardware.ceilings import DEFAULT_LAUNCH_S, Allocation, Ceilings, core_grid

ALL = list(platforms.shipped().values())
WHOLE = Ceilings.of([Allocation(p, 1 if p.is_gpu else p.cores) for p in ALL])
PARALLEL = ThreadScaling(0.0, float("inf"), measured=True)
WORK = st.fixed_dictionaries({"bytes_moved": st.floats(1e5, 1e13), "flops": st.floats(0, 1e15)})


def seconds(**work: float | None) -> np.ndarray:
    return times(work_of(profile(**work)), WHOLE, PARALLEL).total


def test_a_streaming_program_is_bound_by_memory_everywhere() -> None:
    found = times(work_of(profile(bytes_moved=1e12, flops=1e10, peak=1e12)), WHOLE, PARALLEL)
    assert {found.bound(i) for i in range(len(ALL))} == {Bound.MEMORY}


def test_its_time_is_bytes_over_bandwidth() -> None:
    found = times(work_of(profile(bytes_moved=1e12, flops=0, peak=1e12)), WHOLE, PARALLEL)
    for index, platform in enumerate(ALL):
        dram = platform.signature.level("dram")
        assert dram is not None
        # A third are writes: fetched and written back by CPUs, written by GPUs.
        moved = 1e12 if platform.is_gpu else 4e12 / 3
        assert found.total[index] == pytest.approx(moved / dram.total_bytes_per_s, rel=0.1)


def test_a_compute_program_is_bound_by_compute_everywhere() -> None:
    found = times(work_of(profile(bytes_moved=1e8, flops=1e13)), WHOLE, PARALLEL)
    assert {found.bound(i) for i in range(len(ALL))} == {Bound.COMPUTE}


def test_many_tiny_kernels_are_bound_by_launches_on_gpus() -> None:
    found = times(work_of(profile(bytes_moved=1e7, flops=1e6, regions=1e4)), WHOLE, PARALLEL)
    bounds = {found.bound(i) for i, p in enumerate(ALL) if p.is_gpu}
    assert bounds == {Bound.LAUNCH}


@pytest.mark.parametrize("regions", [None, 0.0, 1.0])
def test_no_gpu_is_faster_than_one_launch(regions: float | None) -> None:
    found = times(work_of(profile(bytes_moved=1.0, flops=1.0, regions=regions)), WHOLE, PARALLEL)
    for index, platform in enumerate(ALL):
        if platform.is_gpu:
            assert found.total[index] >= (platform.signature.launch_overhead_s or DEFAULT_LAUNCH_S)


@given(WORK)
def test_twice_the_work_takes_longer_everywhere(work: dict[str, float]) -> None:
    more = {key: 2 * value for key, value in work.items()}
    assert (seconds(**more) >= seconds(**work)).all()


@given(WORK)
def test_a_slice_is_never_faster_than_its_parent(work: dict[str, float]) -> None:
    found = dict(zip((p.name for p in ALL), seconds(**work), strict=True))
    for platform in ALL:
        if platform.parent:
            assert found[platform.name] >= found[platform.parent] * 0.999


@given(WORK)
def test_more_cores_are_never_slower_but_for_starting_them(work: dict[str, float]) -> None:
    quartz = platforms.shipped()["quartz"]
    table = Ceilings.of([Allocation(quartz, n) for n in core_grid(quartz)])
    found = times(work_of(profile(**work)), table, PARALLEL)
    rest = found.total - found.launches
    assert (np.diff(rest) <= rest[:-1] * 1e-9).all()


def test_a_serial_program_gains_nothing_from_cores() -> None:
    quartz = platforms.shipped()["quartz"]
    table = Ceilings.of([Allocation(quartz, n) for n in core_grid(quartz)])
    own = profile(bytes_moved=1e6, flops=1e12, peak=1e6)
    found = times(work_of(own), table, ThreadScaling.of(own))
    assert np.ptp(found.total - found.launches) <= found.total[0] * 0.5
    assert found.total[-1] >= found.total[0] * 0.5


def test_a_larger_cache_misses_less() -> None:
    work = work_of(
        profile(counters={"l1_load_misses": 1e7, "l2_load_misses": 1e6, "llc_load_misses": 1e4})
    )
    capacity = np.geomspace(2**15, 2**30, 30)
    assert (np.diff(traffic_bytes(work, capacity, np.ones(30))) <= 0).all()


def test_amdahl_is_recovered() -> None:
    points = tuple(ScalingPoint(threads=n, runtime_s=10 * (0.2 + 0.8 / n)) for n in (1, 2, 4, 8))
    found = ThreadScaling.of(profile(scaling=points, threads=8, runtime_s=points[-1].runtime_s))
    assert found.serial_share == pytest.approx(0.2, abs=0.01)
    assert found.measured


def test_without_measured_scaling_the_declared_threads_are_the_limit() -> None:
    found = ThreadScaling.of(profile(threads=4))
    assert found.most_cores == 4
    assert not found.measured


@pytest.mark.parametrize(
    ("cpu_s", "share", "serial"),
    [
        (10.0, None, 1.0),  # one of two cores was busy
        (15.0, None, 1 / 3),
        (20.0, None, 0.0),
        (12.0, 0.6, 0.0),  # both were, for the time that they had
        (9.0, 0.6, 1 / 3),
        (30.0, None, 0.0),  # more than there is: counted by another clock
    ],
)
def test_processor_time_tells_the_serial_share(
    cpu_s: float, share: float | None, serial: float
) -> None:
    node = platforms.shipped()["quartz"]
    signature = node.signature.model_copy(update={"processor_share": share})
    node = node.model_copy(update={"signature": signature})
    ran = profile(threads=2, runtime_s=10.0, counters={"cpu_time_s": cpu_s})
    found = ThreadScaling.of(ran, node)
    assert found.serial_share == pytest.approx(serial, abs=1e-9)
    assert found.most_cores == 2
    assert not found.measured


@pytest.mark.parametrize(("waited_s", "serial"), [(5.0, 0.0), (2.5, 0.5), (0.0, 1.0), (None, 0.0)])
def test_threads_that_shared_a_core_tell_by_their_waits_what_they_do_side_by_side(
    waited_s: float | None, serial: float
) -> None:
    node = platforms.shipped()["quartz"].model_copy(update={"cores": 1})
    counters = {"cpu_time_s": 10.0} | ({} if waited_s is None else {"run_queue_s": waited_s})
    ran = profile(threads=2, runtime_s=10.0, counters=counters)
    assert ThreadScaling.of(ran, node).serial_share == pytest.approx(serial)


@pytest.mark.parametrize(
    ("one_thread_s", "share", "serial"),
    [
        (20.0, None, 0.0),
        (10.0, None, 1.0),
        (40 / 3, None, 0.5),
        (8.0, None, 1.5),  # slower with two
        (2.0, None, 2.0),  # no more than that is believed
        (50.0, None, 0.0),
        (12.4, 0.62, 0.0),  # one thread may take 1 of the 1.24 cores that two get
        (10.0, 0.62, 0.24),
    ],
)
def test_the_time_on_one_thread_tells_the_serial_share(
    one_thread_s: float, share: float | None, serial: float
) -> None:
    node = platforms.shipped()["quartz"]
    signature = node.signature.model_copy(update={"processor_share": share})
    node = node.model_copy(update={"signature": signature})
    ran = profile(threads=2, runtime_s=10.0, counters={"cpu_time_s": 20.0})
    ran = ran.model_copy(update={"one_thread_s": one_thread_s})
    found = ThreadScaling.of(ran, node)
    assert found.serial_share == pytest.approx(serial, abs=1e-9)
    assert found.most_cores == 2


def test_a_program_is_on_one_core_as_fast_as_it_was_on_one_thread() -> None:
    node = platforms.shipped()["quartz"]
    table = Ceilings.of([Allocation(node, units) for units in (1, 2)])
    for one_thread_s in (9.0, 12.0, 19.0):
        ran = profile(threads=2, runtime_s=10.0, counters={"instructions": 1e11}).model_copy(
            update={"one_thread_s": one_thread_s}
        )
        found = times(work_of(ran), table, ThreadScaling.of(ran, node))
        assert found.total[0] / found.total[1] == pytest.approx(one_thread_s / 10.0, rel=0.01)


def test_a_program_that_kept_one_core_busy_loses_nothing_on_one_core() -> None:
    table = Ceilings.of([Allocation(platforms.shipped()["quartz"], units) for units in (1, 2)])
    ran = profile(threads=2, runtime_s=10.0, counters={"cpu_time_s": 10.0})
    found = times(work_of(ran), table, ThreadScaling.of(ran))
    assert found.total[0] <= 1.01 * found.total[1]


def test_the_fewest_cores_are_those_of_runs_that_worked() -> None:
    two = profile(threads=2, runtime_s=10.0)
    follows = two.runs_on.model_copy(update={"follows_shape": True})
    swept = (ScalingPoint(threads=1, runtime_s=18.0), ScalingPoint(threads=2, runtime_s=10.0))
    assert least_cores(two) == 2
    assert least_cores(profile()) == 1
    for change in ({"one_thread_s": 18.0}, {"runs_on": follows}, {"scaling": swept}):
        assert least_cores(two.model_copy(update=change)) == 1


@pytest.mark.parametrize("name", ["instructions", "loads", "llc_load_misses"])
def test_a_missing_counter_is_named(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        work_of(profile(drop=(name,)))


def test_a_program_of_no_instructions_is_refused() -> None:
    with pytest.raises(UsageError, match="no instructions"):
        work_of(profile(counters={"instructions": 0.0}))


def test_a_short_loop_that_writes_an_array_is_no_reduction() -> None:
    """A loop over 400 elements has as few stores as a sum over millions, but not as few a share."""
    short = work_of(profile(bytes_moved=3e3, flops=400, regions=1.0))
    assert short.stores < 500
    assert short.reductions == 0


def test_scattered_atomics_go_at_the_cards_rate() -> None:
    """Eight updates of each of a million nodes, as in nodal accumulation."""
    work = replace(
        work_of(profile(bytes_moved=1e8, flops=1e6)),
        atomics=8e6,
        read_misses=(1e6, 1e6, 1e6),
    )
    found = times(work, WHOLE, PARALLEL)
    for index, platform in enumerate(ALL):
        rate = platform.signature.scattered_atomics_per_s
        assert (rate is not None) == platform.is_gpu
        if rate is not None:
            assert found.parallel[index] >= 8e6 / rate
            assert found.scattered[index] == pytest.approx(8e6 / rate)
            assert found.atomics[index] == 0


def test_a_card_without_a_measured_rate_of_atomics_gets_one_from_its_cache() -> None:
    v100 = platforms.shipped()["lassen-v100"]
    bare = v100.model_copy(
        update={"signature": v100.signature.model_copy(update={"scattered_atomics_per_s": None})}
    )
    given_, rule = Ceilings.of([Allocation(v100, 1), Allocation(bare, 1)]).scattered_atomics
    assert rule == pytest.approx(given_, rel=0.1)


def test_threads_of_a_multiprocessor_share_its_first_level_cache() -> None:
    v100 = platforms.shipped()["lassen-v100"]
    assert Ceilings.of([Allocation(v100, 1)]).l1_capacity[0] == 128 * 1024


def streaming(**changes: object) -> Profile:
    """A program that only moves bytes between memory and one core."""
    return profile(bytes_moved=1e10, flops=1e6, peak=4e9, **changes)


def test_threads_that_share_the_memorys_bandwidth_are_not_a_serial_program() -> None:
    node = platforms.shipped()["quartz"]
    counts = (1, 2, 4, 8, 16, 36)
    table = Ceilings.of([Allocation(node, n) for n in counts])
    roof = times(work_of(streaming()), table, PARALLEL).parallel
    assert roof[0] / roof[-1] < 0.5 * counts[-1], "the bandwidth does not grow with the cores"
    points = tuple(
        ScalingPoint(threads=n, runtime_s=10 * float(seconds / roof[0]))
        for n, seconds in zip(counts, roof, strict=True)
    )
    ran = streaming(scaling=points, threads=36, runtime_s=points[-1].runtime_s)
    assert ThreadScaling.of(ran).serial_share > 0.01
    scaling = thread_scaling(ran, work_of(ran), node)
    assert scaling.serial_share == pytest.approx(0.0, abs=0.006)
    found = times(work_of(ran), table, scaling).parallel
    assert (found / found[0]).tolist() == pytest.approx((roof / roof[0]).tolist(), rel=0.1)


def test_a_serial_share_is_told_beside_the_bandwidth() -> None:
    node = platforms.shipped()["quartz"]
    counts = (1, 2, 4, 8, 16, 36)
    table = Ceilings.of([Allocation(node, n) for n in counts])
    roof = times(work_of(streaming()), table, PARALLEL).parallel
    points = tuple(
        ScalingPoint(threads=n, runtime_s=10 * (0.3 + 0.7 * float(seconds / roof[0])))
        for n, seconds in zip(counts, roof, strict=True)
    )
    ran = streaming(scaling=points, threads=36, runtime_s=points[-1].runtime_s)
    scaling = thread_scaling(ran, work_of(ran), node)
    assert scaling.serial_share == pytest.approx(0.3, abs=0.01)
    found = times(work_of(ran), table, scaling).parallel
    assert (10 * found / found[0]).tolist() == pytest.approx(
        [p.runtime_s for p in points], rel=0.02
    )


def test_two_runs_within_the_bandwidth_of_two_cores_have_no_serial_share() -> None:
    node = platforms.shipped()["quartz"]
    ran = streaming(threads=2, runtime_s=10.0, counters={"cpu_time_s": 20.0})
    table = Ceilings.of([Allocation(node, 1), Allocation(node, 2)])
    one, two = times(work_of(ran), table, PARALLEL).parallel.tolist()
    ran = ran.model_copy(update={"one_thread_s": 10.0 * one / two})
    assert thread_scaling(ran, work_of(ran), node).serial_share == pytest.approx(0.0, abs=1e-6)


def test_the_main_run_counts_where_the_sweep_was_disturbed() -> None:
    points = (ScalingPoint(threads=1, runtime_s=1.63), ScalingPoint(threads=2, runtime_s=1.30))
    ran = profile(threads=2, runtime_s=0.82, scaling=points)
    assert ThreadScaling.of(ran).serial_share < 0.02
