"""Threads that compute, contention with its effect, counts that cannot be, runs that keep apart."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from berth.pilot import plausible
from berth.pilot.assemble import Extra, assemble
from berth.pilot.collectors.proc import PeakMemory
from berth.pilot.launch import Order, ProcessResult, run_one
from berth.pilot.native import Native
from berth.pilot.options import PilotOptions, make_plan
from berth.pilot.plausible import (
    BUSY_NOISE,
    contention,
    cores_used,
    impossible,
    is_contention,
    noise_of,
    other_work,
    own_time_s,
    ran_elsewhere,
    refused,
)
from berth.pilot.profile import Measurement, Quality, RunsOn, Runtime, Target
from berth.pilot.shepherd.proc import age_of, stat_fields
from berth.pilot.shepherd.threads import Threads, threads_at_exit

Program = Callable[[str], str]


def outcome(**changed: object) -> ProcessResult:
    base: dict[str, object] = {
        "wall_s": 10.0, "exit_code": 0, "signal": None, "cut": None, "leftover": 0,
        "output_bytes": 0, "output_tail": "", "rss_floor": 0, "rss_peak": 0, "hwm_peak": 0,
        "page_tables_peak": 0, "threads_peak": 4, "processes_peak": 1, "files_peak": 3,
        "samples": 10, "sampling_cost_s": 0.0, "executables": (), "libraries": (), "io": None,
        "usage": {"ru_utime": 9.5, "ru_stime": 0.2, "ru_maxrss": 10_000_000},
        "machine_s": {"busy": 10.0, "stolen": 0.0},
    }  # fmt: skip
    return ProcessResult(**{**base, **changed})  # type: ignore[arg-type]


def counted(name: str, value: float) -> dict[str, Measurement]:
    return {name: Measurement(value=value, quality=Quality.EMULATED, source="emulator")}


def test_threads_that_only_exist_are_not_counted(program: Program) -> None:
    found = run_one(Order((program("idlers"),), {}))
    assert found.threads_peak == 4
    assert found.threads_busy == 1


def test_threads_that_come_one_after_another_are_not_added_up() -> None:
    threads = Threads()
    for phase in range(8):
        workers = [f"{phase}-{worker}" for worker in range(2)]
        threads.together.setdefault(7, set()).add(frozenset(["7", *workers]))
        threads.times.update({(7, name): (10**9, 0) for name in workers})
    threads.times[7, "7"] = (10**6, 0)
    assert threads.busy() == 2


SECOND = 10**9


def seen(*looks: dict[str, tuple[float, float]]) -> Threads:
    """One process; of each look the threads there, with seconds that they ran and were there."""
    threads = Threads()
    for look in looks:
        threads.together.setdefault(7, set()).add(frozenset(look))
        for name, (ran_s, age_s) in look.items():
            threads.times[7, name] = (int(ran_s * SECOND), 0)
            threads.ages[7, name] = int(age_s * SECOND)
    return threads


@pytest.mark.parametrize(
    ("asleep", "waited_for", "blocked_s"),
    [((True, True), 7, 0.9), ((True, False), 7, 0.0), ((True, True), 8, 0.0)],
)
def test_time_between_two_samples_that_show_nothing_running_is_asleep(
    asleep: tuple[bool, bool], waited_for: int, blocked_s: float
) -> None:
    threads = Threads()
    threads.times[5, "5"] = (SECOND, 0)
    threads.look(10.0, {5: 7}, asleep=asleep[0])
    threads.times[5, "5"] = (SECOND + SECOND // 20, SECOND // 20)
    threads.look(11.0, {5: waited_for}, asleep=asleep[1])
    assert threads.blocked_s == pytest.approx(blocked_s)
    assert threads.processes_busy == 1


TWO = {"8": (100.0, 100.0), "9": (98.0, 100.0)}
BATCHES = [{"7": (20.0, 200.0), f"{n}-a": (9.0, 9.0), f"{n}-b": (9.0, 9.0)} for n in range(20)]


@pytest.mark.parametrize(
    ("looks", "busy"),
    [
        *(([{"7": (0.1, 100.0), "10": (each, 100.0), **TWO}], 2) for each in (10.0, 15.0, 20.0)),
        (BATCHES, 2),  # a helper beside workers that are started anew for each batch
        *(([{"7": (each, 100.0), **TWO}], 3) for each in (30.0, 50.0, 90.0)),
        ([{"7": (100.0, 100.0), "8": (12.0, 12.0)}], 2),  # a worker that ended early
        ([{"7": (100.0, 100.0), **{f"w{n}": (15.0, 100.0) for n in range(7)}}], 8),
    ],
)
def test_workers_are_cores_and_helpers_beside_them_are_none(
    looks: list[dict[str, tuple[float, float]]], busy: int
) -> None:
    assert seen(*looks).busy() == busy


@pytest.mark.parametrize(
    ("process_ms", "leader_ms", "age_ms", "sampled", "least"),
    [
        (200, 100, 105, 0, 2),  # two threads, over before the first sample
        (700, 600, 605, 1, 2),  # a serial start of half a second
        (400, 100, 105, 2, 4),  # the samples showed two of four
        (100, 0, 105, 0, 1),  # the first thread waits for one that computes
        (110, 100, 115, 1, 0),  # within the kernel's clock ticks
        (1000, 950, 1000, 1, 0),  # a helper
        (200, 100, 105, 2, 0),  # as sampled
    ],
)
def test_threads_that_no_sample_showed_are_known_at_exit(
    process_ms: int, leader_ms: int, age_ms: int, sampled: int, least: int
) -> None:
    times = (value * 1_000_000 for value in (process_ms, leader_ms, age_ms))
    assert threads_at_exit(*times, sampled) == least


def test_threads_of_unknown_age_count_by_their_time() -> None:
    threads = seen({"7": (100.0, 100.0), "8": (20.0, 100.0)})
    threads.ages.clear()
    assert threads.busy() == 2


def test_the_age_of_a_thread_is_read_from_the_kernel() -> None:
    age_s = age_of(stat_fields("/proc/self/stat")) / SECOND
    assert 0 < age_s < time.clock_gettime(time.CLOCK_BOOTTIME)
    assert age_of(stat_fields("/proc/self/none")) == 0


def test_a_quiet_machine_gives_no_warning_and_no_noise() -> None:
    quiet = contention(outcome())
    assert quiet is not None
    assert not quiet.noticeable
    assert noise_of([10.0, 10.1, 9.9], quiet) is None
    assert own_time_s(outcome()) == 10.0
    assert quiet.sentence(Runtime(median_s=10.0, spread_s=0.1, repeats_s=(10.0,))) is None


BUSY = {"busy": 100.0, "stolen": 0.0}
"""Of a run of 10 s: all processors of the machine were busy."""


def test_waits_for_other_work_are_taken_off_the_time_and_said() -> None:
    run = outcome(waited_s=5.0, machine_s=BUSY, usage={"ru_utime": 4.8, "ru_nvcsw": 3})
    shared = contention(run)
    assert shared is not None
    assert 4.8 < own_time_s(run) < 5.0  # the processor time, and the time without the waits
    noise = noise_of([5.0, 5.1, 4.9], shared)
    assert noise is not None
    assert 0.5 * BUSY_NOISE < noise < 1.5 * BUSY_NOISE
    said = shared.sentence(Runtime(median_s=5.0, spread_s=0.1, repeats_s=(5.0,), noise=noise)) or ""
    assert is_contention(said)
    assert "5 s without its waits" in said
    assert "waited 5 s for a processor" in said


SHORT = {
    "wall_s": 0.212, "waited_s": 0.05, "machine_s": {"busy": 0.42, "stolen": 0.0},
    "usage": {"ru_utime": 0.0031, "ru_nvcsw": 1}, "first_thread_s": 0.0031,
}  # fmt: skip


@pytest.mark.parametrize("seen_late_s", [0.158, 0.2, 0.1])
def test_a_short_program_has_its_processor_time_however_late_its_end_was_seen(
    seen_late_s: float,
) -> None:
    run = outcome(**SHORT, seen_late_s=seen_late_s)
    shared = contention(run)
    assert shared is not None
    factor = math.exp(1.645 * (noise_of([own_time_s(run)], shared) or 0.0))
    assert own_time_s(run) / factor < 0.0031 < own_time_s(run) * factor


@pytest.mark.parametrize(
    ("changed", "seconds"),
    [
        ({"threads_busy": 2, "waited_s": 8.0, "first_thread_s": 3.0}, (3.0, 3.0)),
        ({"processes_busy": 2, "waited_s": 4.0, "busiest_process_s": 3.5}, (3.5, 6.0)),
        ({"threads_busy": 4, "waited_s": 7.0}, (2.95, 3.0)),
        ({"threads_busy": 2, "processes_busy": 2, "waited_s": 7.0}, (2.95, 3.0)),
        ({"blocked_s": 2.0, "waited_s": 2.0}, (7.9, 8.0)),
    ],
)
def test_processor_time_by_threads_and_time_asleep_bound_the_time_from_below(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, float], seconds: tuple[float, float]
) -> None:
    monkeypatch.setattr(plausible, "cores", lambda: 2)
    run = outcome(machine_s=BUSY, **{"usage": {"ru_utime": 5.9, "ru_nvcsw": 9}, **changed})
    assert seconds[0] * 0.999 <= own_time_s(run) <= seconds[1]


def test_waits_for_its_own_threads_or_a_quota_stay_in_the_time() -> None:
    alone = outcome(waited_s=5.0, machine_s={"busy": 10.0, "stolen": 0.0})
    assert own_time_s(alone) == 10.0
    crowd = outcome(waited_s=5.0, machine_s={"busy": 19.0, "stolen": 0.0}, threads_busy=100_000)
    assert own_time_s(crowd) == 10.0


def test_runs_that_differ_on_a_busy_machine_have_more_noise() -> None:
    shared = contention(outcome(machine_s=BUSY))
    near, far = noise_of([10.0, 10.1, 9.9], shared), noise_of([10.0, 16.0, 7.0], shared)
    assert near is not None
    assert far is not None
    assert far > 1.5 * near


def test_time_for_which_a_program_was_stopped_is_noise_and_time_of_its_own_waits_is_not() -> None:
    stopped = contention(outcome(usage={"ru_utime": 6.0, "ru_nvcsw": 5}))
    assert stopped is not None
    assert stopped.stopped_share == pytest.approx(0.35)
    assert noise_of([10.0] * 3, stopped) is not None
    reading = contention(outcome(usage={"ru_utime": 6.0, "ru_nvcsw": 5_000}))
    assert reading is not None
    assert reading.stopped_share == 0


def test_what_the_host_took_is_part_of_the_effect() -> None:
    taken = contention(outcome(machine_s={"busy": 7.5, "stolen": 2.5}))
    assert taken is not None
    assert taken.idle_s < 10.0 / 1.3
    said = taken.sentence(Runtime(median_s=10.0, spread_s=0, repeats_s=(10.0,), noise=0.25))
    assert "took 25%" in (said or "")


@pytest.mark.parametrize(
    ("instructions", "user_s", "said"),
    [
        (1e10, 5.0, None),
        (2e8, 5.0, "only 2e+08 instructions"),
        (1e12, 5.0, "more than a processor does"),
        (1e6, 0.05, None),
    ],
)
def test_counts_are_held_against_the_processor_time(
    instructions: float, user_s: float, said: str | None
) -> None:
    found = impossible({"instructions": instructions}, RunsOn(), user_s, user_s)
    assert (found is None) == (said is None)
    assert said is None or said in (found or "")


def test_a_program_that_waits_for_memory_is_slow_and_possible() -> None:
    counts = {"instructions": 1.5e8, "llc_load_misses": 3e7}
    assert impossible(counts, RunsOn(), 5.0, 5.0) is None
    assert impossible({"instructions": 1.5e8}, RunsOn(), 5.0, 5.0) is not None


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"instructions": 3.2e9, "cycles": 3.4e6}, "941 in each cycle"),
        ({"instructions": 3.2e9, "cycles": 4e8}, None),
        ({"dram_bytes": 1e15}, "more than a processor does in 1 s"),
        ({"fp64_ops": 1e10, "load_bytes": 1e11}, None),
        ({"branches": 0.0}, "no branches in 1 s"),
        ({"loop_iterations": 1e15}, None),
    ],
)
def test_counts_are_held_against_each_other_and_what_a_core_can_do(
    counts: dict[str, float], said: str | None
) -> None:
    found = impossible(counts, RunsOn(), 1.0)
    assert (found is None) == (said is None)
    assert said is None or said in (found or "")


def test_a_program_on_gpus_is_not_judged() -> None:
    runs_on = RunsOn(targets=(Target.CUDA,), gpus=1)
    assert impossible({"instructions": 1e3}, runs_on, 50.0, 50.0) is None


def test_a_launcher_that_only_waited_ran_the_program_elsewhere() -> None:
    waited = outcome(usage={"ru_utime": 0.05, "ru_stime": 0.02})
    assert "ran elsewhere" in (ran_elsewhere(("/usr/bin/srun", "./app"), waited) or "")
    assert ran_elsewhere(("/usr/bin/mpirun", "./app"), outcome()) is None
    assert ran_elsewhere(("./app",), waited) is None


def test_impossible_counts_are_refused_and_time_and_memory_stay() -> None:
    plan = make_plan(PilotOptions(command=("/bin/true",), collectors=("proc",)))
    native = Native(outcome(), Runtime(median_s=10, spread_s=0.1, repeats_s=(10,)), {}, (), ())
    native = replace(native, memory=PeakMemory(10**7, None))
    extra = Extra(counters=counted("instructions", 1e6) | counted("fp64_ops", 1e5))
    profile = assemble(plan, native, extra)
    assert profile.value("instructions") is None
    assert "refused" in (profile.counters["fp64_ops"].note or "")
    assert profile.runtime is not None
    assert profile.peak_memory_bytes
    assert any("counters are refused" in warning for warning in profile.warnings)


@pytest.mark.parametrize(
    ("again", "is_other"),
    [
        ({"usage": {"ru_utime": 0.006}, "io": {"rchar": 9_000, "syscr": 9}}, True),  # make, again
        (
            {"usage": {"ru_utime": 2.0}, "io": {"rchar": 90_000, "syscr": 99}},
            False,
        ),  # was disturbed
        ({"usage": {"ru_utime": 4.4}, "io": {"rchar": 9_000, "syscr": 9}}, False),
    ],
)
def test_a_second_run_that_finds_its_work_done_is_recognised(
    again: dict[str, object], is_other: bool
) -> None:
    first = outcome(usage={"ru_utime": 4.5}, io={"rchar": 90_000, "syscr": 99})
    assert (other_work(first, outcome(**again)) is not None) is is_other


@pytest.mark.parametrize(
    ("said", "cpu_s", "is_refused"),
    [
        ("app: error: no input was given\n", 0.01, True),
        ("Usage: app [OPTIONS] FILE\n", 0.01, True),
        ("step 1\nFatal error in MPI_Init\n", 0.05, True),
        ("app: unrecognized option '--cells'\n", 0.01, True),
        ("error: 0.00013\nError = 1e-5\n", 0.01, False),
        ("iterations 7, error below tolerance\n", 0.01, False),
        ("42\nerror: ignoring const execution_exception& while preparing to exit\n", 0.1, False),
        ("warning\nerror: one of 9000 lines was skipped\n", 9.0, False),
    ],
)
def test_a_program_that_refuses_its_work_with_status_0_has_no_time(
    said: str, cpu_s: float, is_refused: bool
) -> None:
    first = outcome(output_tail=said, usage={"ru_utime": cpu_s})
    assert (refused(first) is not None) is is_refused
    assert refused(replace(first, written=("scene.png",))) is None
    plan = make_plan(PilotOptions(command=("/bin/true",), collectors=("proc",)))
    timed = Runtime(median_s=10, spread_s=0.1, repeats_s=(10,))
    profile = assemble(plan, Native(first, timed, {}, (), ()), Extra())
    assert profile.complete is not is_refused
    assert (profile.runtime is None) is is_refused


def test_processes_are_cores_as_threads_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plausible, "cores", lambda: 4)
    pair = {"threads_busy": 1, "processes_busy": 2, "machine_s": {"busy": 19.0, "stolen": 0.0}}
    assert cores_used(outcome(usage={"ru_utime": 19.0, "ru_nvcsw": 9}, **pair)) == 2
    assert cores_used(outcome()) == 1
    held_up = {
        "usage": {"ru_utime": 5.9},
        "threads_busy": 1,
    }  # each process has half of a processor
    assert cores_used(outcome(cores_wanted=1.9, **held_up)) == 2
