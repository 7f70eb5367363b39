"""A profile of a machine without a platform file: its CPU's data sheet describes it. Where the CPU
tells nothing, too: one number whatever is listed, from its own time, and it abstains."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples
from toy_profiles import profile

from berth.pilot.profile import Profile, Provenance
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.prediction import Basis
from berth.predictor.core.workload import workload_of
from berth.predictor.families.program.doubts import notes_of_home
from berth.predictor.hardware import platforms
from berth.predictor.hardware.by_sheet import place_named, platform_of_processor
from berth.predictor.hardware.ceilings import Allocation
from berth.predictor.hardware.core_speed import core_score
from berth.predictor.hardware.processor_names import get_processor

KNOWN = platforms.load()
NAMES = sorted(KNOWN)
FORECASTER = Forecaster(families=("program",))


def local(*, complete: bool = True, runtime_s: float = 2.0, cpu: str = "") -> Profile:
    own = profile("app", platform="local", runtime_s=runtime_s)
    counters = {
        name: m.model_copy(update={"complete": complete}) for name, m in own.counters.items()
    }
    origin = Provenance(created="2026-11-29", berth_version="1", host_cpu=cpu)
    return own.model_copy(update={"counters": counters, "provenance": origin})


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True), st.booleans())
def test_the_number_does_not_depend_on_what_is_listed(names: list[str], complete: bool) -> None:
    workload = workload_of(local(complete=complete))
    together = FORECASTER.forecast(workload, {n: KNOWN[n] for n in names}, KNOWN)
    for name in names:
        alone = FORECASTER.forecast(workload, {name: KNOWN[name]})
        ours, theirs = together.curves[name].points, alone.curves[name].points
        assert [p.runtime_s for p in ours] == [p.runtime_s for p in theirs]


def test_it_abstains_everywhere_and_says_what_to_do() -> None:
    forecast = FORECASTER.forecast(workload_of(local()), KNOWN)
    for curve in forecast.curves.values():
        for point in curve.points:
            assert point.abstained is not None
            assert "no platform file" in point.abstained
            assert point.basis is Basis.PRIOR


def test_its_own_time_enters_on_every_cpu_with_a_wide_interval() -> None:
    short, long = (
        FORECASTER.forecast(workload_of(local(runtime_s=seconds)), KNOWN) for seconds in (2.0, 8.0)
    )
    for name in (name for name in NAMES if not KNOWN[name].is_gpu):
        ours, theirs = (f.curves[name].nearest(1).runtime_s for f in (short, long))
        assert theirs.mid == pytest.approx(4 * ours.mid, rel=0.3)
        assert ours.high / ours.low > 3


@pytest.mark.parametrize(
    ("cpu", "sheet", "measured"),
    [
        ("AMD EPYC 7742 64-Core Processor", "AMD EPYC 7742 by its data sheet", True),
        ("AMD EPYC 9654 96-Core Processor", "AMD EPYC 9654 by its data sheet", False),
        ("AMD EPYC (family 25 model 1)", "typical model with its core", False),
        ("0x41 part 0xd4f", "typical model with its core", False),
        ("POWER9", "IBM POWER9 by its data sheet", False),
    ],
)
def test_the_data_sheet_of_its_cpu_describes_the_machine(
    cpu: str, sheet: str, measured: bool
) -> None:
    own, alike = local(cpu=cpu), place_named(cpu, {})
    known = {**KNOWN, alike.name: alike}
    forecast = FORECASTER.forecast(workload_of(own), known)
    there, same = (forecast.curves[name].nearest(1) for name in ("graviton2", alike.name))
    assert there.abstained is None
    assert (same.basis, same.speedup.mid) == (Basis.MEASURED, 1.0)
    ours, theirs = (core_score(known[name]) for name in (alike.name, "graviton2"))
    assert ours is not None
    assert theirs is not None
    ratios = (theirs.integer / ours.integer, theirs.floating_point / ours.floating_point)
    assert min(ratios) * 0.999 <= there.speedup.mid <= max(ratios) * 1.001
    (words,) = notes_of_home(own, KNOWN, ())
    assert sheet in words
    assert ("speed of its cores was measured" in words) is measured
    assert ("known within" in words) is not measured


@pytest.mark.parametrize(("cpu", "sockets"), [("AMD EPYC 7742", 2), ("Intel Core i7-12700H", 1)])
def test_a_run_with_more_threads_than_a_server_cpu_has_cores_had_several(
    cpu: str, sockets: int
) -> None:
    processor = get_processor(cpu)
    own = local(cpu=cpu)
    many = own.runs_on.model_copy(update={"threads": 2 * processor.cores})
    node = platform_of_processor(processor, sockets=sockets)
    workload = workload_of(own.model_copy(update={"runs_on": many}))
    curve = FORECASTER.forecast(workload, {node.name: node}).curves[node.name]
    assert curve.nearest(many.threads).speedup.mid == 1.0


def test_the_cpu_of_a_run_on_a_gpu_tells_nothing_of_the_gpu() -> None:
    own = local(cpu="AMD EPYC 7742")
    on_gpu = own.model_copy(update={"runs_on": own.runs_on.model_copy(update={"gpus": 1})})
    forecast = FORECASTER.forecast(workload_of(on_gpu), {"quartz": KNOWN["quartz"]})
    assert "no platform file" in (forecast.curves["quartz"].points[0].abstained or "")
    assert notes_of_home(on_gpu, KNOWN, ()) == []


def test_caches_that_hold_what_the_pilots_own_do_not_are_named() -> None:
    own = local(cpu="Xeon Gold 6248").model_copy(update={"peak_memory_bytes": 2e8})
    points = [
        Allocation(platform_of_processor(get_processor(n)), 64) for n in ("EPYC 9654", "EPYC 9754")
    ]
    assert notes_of_home(own, KNOWN, points)[1:] == [
        "caches: those of epyc-9654 hold the pilot's data; more data run slower there"
    ]
