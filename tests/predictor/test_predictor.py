"""Predictions: the basis rule, intervals, abstention, and what serving may import."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from thorough import examples
from toy_profiles import PLATFORM, profile

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile, Provenance, ScalingPoint, SizePoint
from berth.pilot.units import MOST_SHOWN_FACTOR
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.intervals import NORMAL_90
from berth.predictor.core.prediction import Basis, Bound, MemoryUse, Prediction
from berth.predictor.core.workload import workload_of
from berth.predictor.families.program.amdahl import cores_used
from berth.predictor.families.program.doubts import private_arrays
from berth.predictor.families.program.estimate import (
    LAUNCH_NOISE,
    LEAST_LOG_WIDTH,
)
from berth.predictor.families.program.predictor import Predictor, too_wide, usable_cores
from berth.predictor.families.program.problem_size import at_size
from berth.predictor.families.program.range_check import RangeCheck
from berth.predictor.families.program.work import LINE_BYTES, TYPICAL_PROGRAM
from berth.predictor.hardware import platforms
from berth.predictor.hardware.ceilings import Allocation
from berth.predictor.hardware.core_speed import core_score

ALL = platforms.shipped()
HERE = ALL[PLATFORM]


def everywhere(predictor: Predictor, own: Profile, reference: Platform | None) -> list[Prediction]:
    points = [Allocation(p, 1 if p.is_gpu else usable_cores(own, p)) for p in ALL.values()]
    return predictor.predict_points(own, points, reference=reference)


def test_the_basis_says_what_a_prediction_stands_on(predictor: Predictor) -> None:
    own = profile()
    found = {p.platform: p.basis for p in everywhere(predictor, own, HERE)}
    assert found[PLATFORM] is Basis.MEASURED
    assert found["quartz"] is found["lassen-v100"] is Basis.CALIBRATED
    assert found["h100-80gb"] is found["rome-7742"] is Basis.PRIOR
    more = predictor.predict(own, ALL["quartz"], reference=HERE, cores=8)
    assert more.basis is Basis.SCALED


@pytest.mark.parametrize("runtime_s", [0.05, 3.0, 500.0])
def test_counts_choose_within_what_the_measured_time_leaves_open(
    predictor: Predictor, runtime_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RangeCheck, "is_near", lambda *_: True)
    own = profile(runtime_s=runtime_s)
    plain = own.model_copy(update={"counters": {}})
    with_counts, without = (
        predictor.predict(each, ALL["quartz"], reference=HERE) for each in (own, plain)
    )
    assert 0.9 * without.runtime_s.low < with_counts.runtime_s.mid < 1.1 * without.runtime_s.high


def test_the_measured_time_is_the_answer_at_home(predictor: Predictor) -> None:
    found = predictor.predict(profile(runtime_s=3.0), HERE, reference=HERE)
    assert found.runtime_s.mid == pytest.approx(3.0)
    assert found.speedup.mid == pytest.approx(1.0)
    assert found.abstained is None


def test_the_noise_of_a_busy_pilot_is_in_all_times_and_in_no_ratio(predictor: Predictor) -> None:
    quiet = profile(runtime_s=3.0)
    assert quiet.runtime is not None
    busy = quiet.model_copy(update={"runtime": quiet.runtime.model_copy(update={"noise": 0.1})})
    before, after = (everywhere(predictor, own, HERE) for own in (quiet, busy))
    home = next(p for p in after if p.platform == PLATFORM)
    assert home.basis is Basis.MEASURED
    assert home.runtime_s.half_log_width == pytest.approx(
        math.hypot(LEAST_LOG_WIDTH, NORMAL_90 * 0.1)
    )
    for narrow, wide in zip(before, after, strict=True):
        assert wide.runtime_s.mid == pytest.approx(narrow.runtime_s.mid)
        assert wide.runtime_s.half_log_width > narrow.runtime_s.half_log_width
        assert wide.ratio_log_width == pytest.approx(narrow.ratio_log_width)


def test_launches_of_ranks_differ_also_on_a_quiet_machine(predictor: Predictor) -> None:
    alone = profile(threads=2)
    ranks = alone.model_copy(
        update={"runs_on": alone.runs_on.model_copy(update={"threads": 1, "ranks": 2})}
    )
    one, many = (predictor.predict(own, HERE, reference=HERE, cores=2) for own in (alone, ranks))
    assert many.runtime_s.mid == pytest.approx(one.runtime_s.mid)
    assert many.runtime_s.half_log_width == pytest.approx(
        math.hypot(one.runtime_s.half_log_width, NORMAL_90 * LAUNCH_NOISE)
    )
    assert many.ratio_log_width == pytest.approx(one.ratio_log_width)


def test_ranks_that_would_share_cores_are_not_predicted(predictor: Predictor) -> None:
    """A rank that waits computes, so that two on one core take many times as long as one."""
    own = profile(bytes_moved=24e6, flops=24e6, peak=27e6)
    own = own.model_copy(update={"runs_on": own.runs_on.model_copy(update={"ranks": 3})})
    here = HERE.model_copy(update={"cores": 4})
    few = predictor.predict(own, ALL["quartz"], reference=here, cores=2)
    assert few.abstained == "its 3 ranks would share 2 cores, and ranks that wait keep a core busy"
    assert few.runtime_s.high > MOST_SHOWN_FACTOR * few.runtime_s.mid
    assert predictor.predict(own, ALL["quartz"], reference=here, cores=3).abstained is None
    curve = predictor.answer(own, {"quartz": ALL["quartz"]}, here).curves["quartz"]
    assert curve.nearest(3).abstained is None
    assert curve.nearest(2).abstained == few.abstained
    crowded = predictor.predict(own, ALL["quartz"], reference=HERE, cores=3)
    assert crowded.abstained == few.abstained.replace("would share", "shared")


def test_measured_thread_counts_are_answers_too(predictor: Predictor) -> None:
    own = profile(
        runtime_s=4.0,
        threads=1,
        scaling=(ScalingPoint(threads=1, runtime_s=4.0), ScalingPoint(threads=2, runtime_s=2.5)),
    )
    found = predictor.predict(own, HERE, reference=HERE, cores=2)
    assert found.basis is Basis.MEASURED
    assert found.runtime_s.mid == pytest.approx(2.5)


def test_uncertainty_grows_with_the_distance_from_measurements() -> None:
    predictor = Predictor.load()

    def factor(name: str, cores: int | None = None) -> float:
        found = predictor.predict(profile(), ALL[name], reference=HERE, cores=cores)
        return found.runtime_s.high / found.runtime_s.mid

    assert factor(PLATFORM) < factor("quartz") < factor("quartz", 4) < factor("quartz", 36)
    assert factor("rome-7742", 1) < factor("rome-7742", 8) < factor("rome-7742", 128) < 4.5
    assert factor("lassen-v100") < factor("h100-80gb")


def test_predictions_on_kernels_like_those_trained_on_are_good(predictor: Predictor) -> None:
    own = profile(bytes_moved=24e6, flops=24e6, peak=27e6)
    found = predictor.predict(own, ALL["quartz"], reference=HERE)
    assert found.abstained is None
    assert found.runtime_s.mid == pytest.approx(24e6 / 5e9, rel=0.3)


def test_a_program_unlike_any_trained_on_is_abstained_from(predictor: Predictor) -> None:
    odd = profile(counters={"branches": 1e10, "branch_misses": 1e9, "instructions": 1.1e10})
    found = predictor.predict(odd, ALL["lassen-v100"], reference=HERE)
    assert found.abstained is not None
    assert "_ratio is" in found.abstained
    assert "the bundle was trained on" in found.abstained
    # Its own time and the speeds of the cores tell it on a CPU, like whatever program.
    assert predictor.predict(odd, ALL["quartz"], reference=HERE).abstained is None


@pytest.mark.parametrize("change", [{"complete": False}, {"exit_status": 1}])
def test_a_run_that_did_not_complete_is_abstained_from(
    predictor: Predictor, change: dict[str, object]
) -> None:
    own = Profile.model_validate({**profile().model_dump(by_alias=True), **change})
    found = predictor.predict(own, ALL["quartz"], reference=HERE)
    assert found.abstained == "the pilot run did not complete"


def test_a_profile_without_runtime_is_refused(predictor: Predictor) -> None:
    own = profile().model_copy(update={"runtime": None})
    with pytest.raises(UsageError, match="no runtime"):
        predictor.predict(own, HERE, reference=HERE)


def test_counts_of_a_part_stand_for_the_whole(predictor: Predictor) -> None:
    whole = profile(bytes_moved=24e6, flops=24e6, peak=27e6, runtime_s=3e-3)
    part = whole.model_copy(
        update={
            "counters": {
                name: m.model_copy(update={"value": (m.value or 0) / 10, "complete": False})
                for name, m in whole.counters.items()
            }
        }
    )
    a = predictor.predict(whole, ALL["quartz"], reference=HERE)
    b = predictor.predict(part, ALL["quartz"], reference=HERE)
    assert b.runtime_s.mid == pytest.approx(a.runtime_s.mid, rel=0.5)


def test_an_unknown_reference_leaves_the_roofline_alone(predictor: Predictor) -> None:
    own = profile(platform="somewhere-else")
    found = everywhere(predictor, own, None)
    assert {p.basis for p in found} == {Basis.PRIOR}


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(50))
@given(
    moved=st.floats(1e3, 1e14), flops=st.floats(0, 1e15), runtime=st.floats(1e-6, 1e6),
    threads=st.integers(1, 512),
)  # fmt: skip
def test_every_interval_is_ordered_and_speedup_agrees_with_time(
    predictor: Predictor, moved: float, flops: float, runtime: float, threads: int
) -> None:
    own = profile(bytes_moved=moved, flops=flops, runtime_s=runtime, threads=threads)
    for found in everywhere(predictor, own, HERE):
        assert found.speedup.mid == pytest.approx(runtime / found.runtime_s.mid)
        assert found.speedup.low == pytest.approx(runtime / found.runtime_s.high)
        assert found.memory.host_bytes is not None
        assert found.memory.host_bytes.high >= 3e8


def test_the_forecast_says_what_predict_says(predictor: Predictor) -> None:
    own = profile()
    answer = predictor.answer(own, ALL, HERE)
    for name, platform in ALL.items():
        one = predictor.predict(own, platform, reference=HERE)
        again = answer.curves[name].nearest(one.gpus or one.cores)
        assert again.runtime_s.mid == pytest.approx(one.runtime_s.mid)
        assert again.basis is one.basis


def test_size_moves_time_and_memory_but_not_speedup(predictor: Predictor) -> None:
    sizes = tuple(
        SizePoint(size=n, runtime_s=n * 1e-8, peak_memory_bytes=1e8 + 200 * n) for n in (1e6, 4e6)
    )
    own = profile(sizes=sizes)
    here = predictor.predict(own, ALL["quartz"], reference=HERE)
    there = at_size(here, own, 4e6)
    assert there.runtime_s.mid == pytest.approx(4 * here.runtime_s.mid, rel=0.05)
    assert here.memory.host_bytes is not None
    assert there.memory.host_bytes is not None
    assert there.memory.host_bytes.high > here.memory.host_bytes.high
    assert there.speedup == here.speedup


@pytest.mark.parametrize("gpu", ["lassen-v100", "h100-80gb"])
def test_no_size_is_predicted_to_run_shorter_than_one_launch(
    predictor: Predictor, gpu: str
) -> None:
    sizes = tuple(SizePoint(size=n, runtime_s=n * 1e-8, peak_memory_bytes=1e8) for n in (1e5, 1e6))
    forecast = Forecaster(families=("program",)).forecast(workload_of(profile(sizes=sizes)), ALL)
    least_s = ALL[gpu].signature.launch_overhead_s
    assert least_s is not None
    tiny = Forecast.from_json(forecast.to_json()).runtime_at(gpu, 1, size=10.0)
    assert tiny is not None
    assert least_s <= tiny.mid < 2 * least_s


def test_without_a_measured_peak_memory_is_not_known(predictor: Predictor) -> None:
    found = predictor.predict(profile(peak=None), ALL["quartz"], reference=HERE)
    assert found.memory == MemoryUse()


def test_much_arithmetic_on_private_arrays_is_not_known_on_gpus_that_were_never_measured() -> None:
    streams = replace(TYPICAL_PROGRAM, flops_f64=1.0, access_bytes=16.0)
    misses = 1.0 / LINE_BYTES
    assert private_arrays(replace(streams, read_misses=(misses, 0.0, 0.0))) is None
    private = replace(streams, read_misses=(misses / 20, 0.0, 0.0), write_misses=(0.0, 0.0, 0.0))
    words = private_arrays(private)
    assert words is not None
    assert words.startswith("it computes 20 floating-point operations a byte")
    assert private_arrays(replace(private, access_bytes=0.1)) is None  # in registers alone
    nothing_fetched = private_arrays(replace(private, read_misses=(0.0, 0.0, 0.0)))
    assert nothing_fetched is not None


def test_data_that_fit_into_the_caches_of_one_of_two_nodes_widen() -> None:
    old, new = ALL["skylake-8176"], ALL["rome-7742"]
    own = _time_only(platform=old.name)
    own = own.model_copy(update={"runs_on": own.runs_on.model_copy(update={"threads": old.cores})})

    def width(peak_bytes: float) -> float:
        some = own.model_copy(update={"peak_memory_bytes": peak_bytes})
        found = Predictor.load().predict(some, new, reference=old, cores=new.cores)
        return found.runtime_s.log_width

    assert width(2e8) > width(4e9)
    assert width(1e6) == width(4e9)


def test_serving_imports_no_training_library(toy_bundle: Path) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from berth.predictor.hardware import platforms\n"
        "from berth.predictor.families.program.predictor import Predictor\n"
        f"Predictor.load(Path({str(toy_bundle)!r}))\n"
        "platforms.load()\n"
        "heavy = {'torch', 'xgboost', 'pandas', 'sklearn', 'scipy', 'onnx', 'joblib', 'pyarrow'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def _time_only(**changed: object) -> Profile:
    own = profile(runtime_s=3.0)
    counters = {name: m for name, m in own.counters.items() if m.source == "proc"}
    return own.model_copy(update={"counters": counters, **changed})


def test_time_and_memory_alone_are_own_time_times_the_ratio_of_the_cores(
    predictor: Predictor,
) -> None:
    own = _time_only()
    found = {p.platform: p for p in everywhere(predictor, own, HERE)}
    assert found[PLATFORM].runtime_s.mid == pytest.approx(3.0)
    assert found["quartz"].abstained is None
    ours, theirs = (core_score(platform) for platform in (HERE, ALL["quartz"]))
    assert ours is not None
    assert theirs is not None
    ratios = ours.integer / theirs.integer, ours.floating_point / theirs.floating_point
    assert found["quartz"].runtime_s.mid / 3.0 == pytest.approx(math.sqrt(math.prod(ratios)))
    assert found["quartz"].memory.host_bytes is not None
    assert found["quartz"].memory.host_bytes.mid == 3e8
    assert "too wide" in (found["lassen-v100"].abstained or "")
    assert found["quartz"].bound is Bound.UNKNOWN


def test_time_alone_on_whole_nodes_is_between_the_ratios_of_cores_and_of_bandwidths() -> None:
    old, new = ALL["skylake-8176"], ALL["rome-7742"]
    own = _time_only(platform=old.name)
    own = own.model_copy(update={"runs_on": own.runs_on.model_copy(update={"threads": old.cores})})
    found = Predictor.load().predict(own, new, reference=old, cores=new.cores)
    scores = [core_score(platform) for platform in (old, new)]
    speeds = [math.sqrt(s.integer * s.floating_point) for s in scores if s is not None]
    memories = [p.signature.level("dram") for p in (old, new)]
    rates = [m.total_bytes_per_s for m in memories if m is not None]
    by_cores = speeds[0] / speeds[1]  # it declared as many threads as the old node has cores
    by_memory = rates[0] / rates[1]
    least, most = sorted((by_cores, by_memory))
    assert least < found.runtime_s.mid / 3.0 < most


@pytest.mark.parametrize("time_only", [False, True])
def test_a_run_on_another_processor_than_its_platforms_abstains(
    predictor: Predictor, time_only: bool
) -> None:
    own = _time_only() if time_only else profile()

    def abstained(cpu: str, expected: str = "AMD EPYC  9654") -> str:
        here = HERE.model_copy(update={"processor": expected, "architecture": "aarch64"})
        origin = Provenance(created="2026-11-22", berth_version="1", host_cpu=cpu)
        ran = own.model_copy(update={"provenance": origin})
        return predictor.predict(ran, ALL["quartz"], reference=here).abstained or ""

    assert "it ran on" not in abstained("AMD EPYC 9654")
    assert "it ran on" not in abstained("")
    assert abstained("Xeon E5").startswith("it ran on Xeon E5, but platform")
    assert "it ran on" not in abstained("Neoverse-N1", "Graviton2")
    assert "it ran on" not in abstained("aarch64", "Graviton2")
    assert abstained("Neoverse-V2", "Graviton2").startswith("it ran on Neoverse-V2, but")


def test_time_alone_does_not_hide_a_run_that_failed(predictor: Predictor) -> None:
    found = predictor.predict(_time_only(complete=False), ALL["quartz"], reference=HERE)
    assert found.abstained == "the pilot run did not complete"


def test_single_precision_is_left_to_the_roofline() -> None:
    shipped = Predictor.load()
    double = profile()
    flops = double.counters["fp64_ops"]
    none = flops.model_copy(update={"value": 0.0})
    single = double.model_copy(
        update={"counters": {**double.counters, "fp32_ops": flops, "fp64_ops": none}}
    )
    assert shipped.predict(single, ALL["h100-80gb"], reference=HERE).abstained is None


def test_only_what_a_waiting_program_computes_is_faster_elsewhere() -> None:
    known, shipped = platforms.shipped(), Predictor.load()

    def there(cpu_s: float | None) -> Prediction:
        waits = profile(runtime_s=1.0, counters={} if cpu_s is None else {"cpu_time_s": cpu_s})
        return shipped.predict(waits, known["quartz"], reference=known.get(waits.platform))

    ratio = there(1.0).runtime_s.mid
    assert there(0.6).runtime_s == there(None).runtime_s == there(1.0).runtime_s
    found = there(0.3)
    assert found.runtime_s.mid == pytest.approx(0.7 + 0.3 * ratio)
    assert 1 / 2.2 < found.runtime_s.low / found.runtime_s.mid < 1 / 1.4
    asleep = there(0.001)
    assert asleep.abstained is None
    assert asleep.runtime_s.mid == pytest.approx(1.0, rel=0.01)


def test_a_waiting_program_has_no_time_to_act_on_on_a_gpu() -> None:
    known = platforms.shipped()
    waits = profile(runtime_s=1.0, counters={"cpu_time_s": 0.3})
    found = Predictor.load().predict(
        waits, known["lassen-v100"], reference=known.get(waits.platform)
    )
    assert "it computed for 30% of its time" in (found.abstained or "")


def test_an_interval_wider_than_a_factor_of_a_hundred_has_no_numbers() -> None:
    assert too_wide(math.log(30.0)) == "the interval is too wide: a factor 30 each way"
    assert too_wide(20.0) == "its time there is not known to within a factor of 100"


def test_the_time_on_one_thread_is_measured_on_one_core(predictor: Predictor) -> None:
    ran = profile(threads=2, runtime_s=4.2, counters={"cpu_time_s": 6.0})
    ran = ran.model_copy(update={"one_thread_s": 4.75})
    home = platforms.shipped()[ran.platform]
    found = predictor.predict(ran, home, reference=home, cores=1)
    assert found.basis is Basis.MEASURED
    assert found.runtime_s.mid == pytest.approx(4.75)


@pytest.mark.parametrize(("waited_s", "two_cores_s"), [(5.0, 5.0), (2.0, 8.0), (0.0, 10.0)])
def test_a_program_of_two_threads_that_shared_a_core_gains_from_two_what_they_waited(
    predictor: Predictor, waited_s: float, two_cores_s: float
) -> None:
    one = HERE.model_copy(update={"cores": 1})
    counters = {"cpu_time_s": 10.0, "run_queue_s": waited_s}
    lacking = ("loads", "stores", "l1_load_misses", "llc_load_misses")
    ran = profile(threads=2, runtime_s=10.0, counters=counters, drop=lacking)
    assert predictor.predict(ran, one, reference=one).basis is Basis.MEASURED
    alone, both = (
        predictor.predict(ran, ALL["quartz"], reference=one, cores=cores) for cores in (1, 2)
    )
    assert both.runtime_s.mid / alone.runtime_s.mid == pytest.approx(two_cores_s / 10.0)


@pytest.mark.parametrize(("threads", "cpu_s"), [(1, 4.0), (2, 4.0), (2, 2.0), (2, 3.0)])
def test_on_one_core_a_program_takes_no_longer_than_its_processor_time(
    predictor: Predictor, threads: int, cpu_s: float
) -> None:
    """Two threads, or two processes that are no threads, kept two cores busy for a part of 2 s."""
    counters = {"instructions": 1e11, "cpu_time_s": cpu_s}
    ran = profile(threads=threads, runtime_s=2.0, counters=counters)
    home = platforms.shipped()[ran.platform]
    assert cores_used(ran, home) == 2
    one, two = (predictor.predict(ran, home, reference=home, cores=n) for n in (1, 2))
    assert (one.basis, two.basis) == (Basis.SCALED, Basis.MEASURED)
    assert one.runtime_s.mid == pytest.approx(cpu_s, rel=0.01)
    # On one core it takes the 2 s at least, and the processor time at most.
    assert one.runtime_s.high <= 1.04 * cpu_s * cpu_s / 2.0
    assert one.runtime_s.low >= 2.0 / 1.04
