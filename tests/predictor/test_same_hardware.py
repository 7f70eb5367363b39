"""The same hardware under another name: its programs run as fast, and its labels are found."""

from __future__ import annotations

import pytest
from toy_profiles import PLATFORM, profile

from berth.pilot.platform import Platform
from berth.plugin.first_site.stub import cpu_stub
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.prediction import Basis
from berth.predictor.core.workload import workload_of
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.families.program.suite import suite_profiles
from berth.predictor.hardware import platforms
from berth.predictor.hardware.same_hardware import same_as, same_hardware

ALL = platforms.shipped()
HERE = ALL[PLATFORM]


def renamed(platform: Platform, name: str = "twin", **changes: object) -> Platform:
    return platform.model_copy(update={"name": name, **changes})


def faster(platform: Platform, factor: float, **changes: object) -> Platform:
    rate = platform.signature.flops_f64_per_s * factor
    signature = platform.signature.model_copy(update={"flops_f64_per_s": rate})
    return renamed(platform, signature=signature, **changes)


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_copy_under_another_name_is_the_same_hardware(name: str) -> None:
    assert same_hardware(ALL[name], renamed(ALL[name], price_per_hour=3.0))


def test_no_two_shipped_platforms_are_the_same() -> None:
    for name, platform in ALL.items():
        assert [n for n, other in ALL.items() if same_hardware(platform, other)] == [name]


def test_rates_may_differ_as_two_benchmark_runs_do_only_where_the_processor_is_named() -> None:
    named = renamed(HERE, "one", processor="AMD EPYC 9B14")
    again = faster(named, 1.05, processor="AMD  EPYC 9B14")
    assert same_hardware(named, again)
    assert not same_hardware(named, faster(named, 1.2))
    assert not same_hardware(renamed(HERE, processor=None), faster(HERE, 1.05, processor=None))


def test_guesses_of_two_kinds_of_node_with_as_many_cores_are_not_the_same() -> None:
    one, other = (
        cpu_stub(name, cores=32, memory_bytes=2**36, architecture="x86_64", instruction_sets=())
        for name in ("a", "b")
    )
    assert not same_hardware(one, other)


@pytest.mark.parametrize(
    "change", [{"cores": 64}, {"processor": "another"}, {"targets": ("cuda",)}]
)
def test_other_hardware_with_equal_rates(change: dict[str, object]) -> None:
    home = renamed(HERE, "home", processor="AMD EPYC 9B14")
    assert not same_hardware(home, renamed(home, **change))


def test_the_platform_of_the_same_name_is_taken_first() -> None:
    twin = renamed(HERE)
    assert same_as(HERE, [twin, HERE]) is HERE
    assert same_as(HERE, [twin]) is twin
    assert same_as(HERE, [ALL["quartz"]]) is None


def test_every_profile_is_as_fast_on_the_reference_under_another_name() -> None:
    predictor = Predictor.load()
    for own in suite_profiles().values():
        there = predictor.predict(own, renamed(HERE), reference=HERE, cores=1)
        assert there.speedup.mid == pytest.approx(1.0, rel=0.01)
        assert there.basis is Basis.MEASURED


@pytest.mark.parametrize("name", ["quartz", "lassen-v100"])
def test_a_labelled_platform_is_found_under_another_name(name: str) -> None:
    predictor, own = Predictor.load(), profile()
    known, twin = (
        predictor.predict(own, platform, reference=HERE, cores=1)
        for platform in (ALL[name], renamed(ALL[name]))
    )
    assert (twin.runtime_s, twin.basis) == (known.runtime_s, Basis.CALIBRATED)


def test_other_hardware_under_a_labelled_name_has_no_labels() -> None:
    other = renamed(HERE, "quartz", cores=HERE.cores + 1)
    there = Predictor.load().predict(profile(), other, reference=HERE, cores=1)
    assert there.basis is Basis.PRIOR


def test_times_measured_on_a_platform_tell_more_than_its_signature(
    predictor: Predictor,
) -> None:
    labelled = {entry.platform: entry.hardware for entry in predictor.bundle.manifest.labelled}
    home = renamed(labelled["quartz"], "home")
    there = predictor.predict(profile(platform="home"), labelled["quartz"], reference=home, cores=1)
    assert there.basis is Basis.CALIBRATED


def test_the_program_counts_as_run_on_its_hardware_under_any_name() -> None:
    asked = {"twin": renamed(HERE), "quartz": ALL["quartz"]}
    forecast = Forecaster(families=("program",)).forecast(workload_of(profile()), asked, ALL)
    assert forecast.ran_on == (PLATFORM, "twin")
    there = forecast.at("twin", 1)
    assert there is not None
    assert there.speedup.mid == pytest.approx(1.0)
