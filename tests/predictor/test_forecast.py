"""A Forecast says after its JSON what it said before, and refuses anything else."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_profiles import profile

from berth.pilot.errors import DocumentError
from berth.pilot.profile import SizePoint
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.workload import workload_of
from berth.predictor.hardware import platforms

SIZES = tuple(
    SizePoint(size=n, runtime_s=n * 1e-8, peak_memory_bytes=1e7 + 24 * n) for n in (1e6, 4e6)
)


@pytest.fixture(scope="module")
def forecast(toy_bundle: Path) -> Forecast:
    return Forecaster((toy_bundle,)).forecast(
        workload_of(profile(sizes=SIZES, peak=3.4e7, runtime_s=0.01)), platforms.load()
    )


def test_json_keeps_every_answer(forecast: Forecast) -> None:
    again = Forecast.from_json(forecast.to_json())
    assert again.to_json() == forecast.to_json()
    for name in forecast.curves:
        for units in (1, 3, 64):
            ours, theirs = forecast.runtime_at(name, units), again.runtime_at(name, units)
            assert ours is not None
            assert theirs is not None
            assert theirs.mid == pytest.approx(ours.mid, rel=1e-5)


def test_it_says_what_the_program_runs_on(forecast: Forecast) -> None:
    assert forecast.targets == ("cpu",)
    assert forecast.digest.startswith("sha256:")
    assert forecast.reference_platform == "epyc-genoa-vm"
    assert forecast.reference_runtime_s == pytest.approx(0.01)


def test_another_size_moves_time_and_memory(forecast: Forecast) -> None:
    here, there = forecast.runtime_at("quartz", 1), forecast.runtime_at("quartz", 1, 4e6)
    assert here is not None
    assert there is not None
    assert there.mid / here.mid == pytest.approx(4, rel=0.2)
    gpu = forecast.memory_at("lassen-v100", size=4e6)
    cpu = forecast.memory_at("quartz", size=4e6)
    assert gpu is not None
    assert cpu is not None
    assert gpu.gpu_bytes is not None
    assert gpu.host_bytes is not None
    assert gpu.host_bytes == cpu.host_bytes
    assert cpu.gpu_bytes is None
    context = gpu.gpu_bytes.mid - gpu.host_bytes.mid
    assert context == pytest.approx(350 * 2**20, rel=0.01)


def test_an_unknown_platform_has_no_answer(forecast: Forecast) -> None:
    assert forecast.runtime_at("nowhere", 1) is None
    assert forecast.memory_at("nowhere") is None
    assert forecast.prediction("nowhere", 1) is None


def test_a_forecast_of_all_platforms_is_small(forecast: Forecast) -> None:
    assert len(forecast.to_json()) < 64_000


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema":"berth.forecast/2"}', "null", "1"])
def test_what_berth_did_not_write_is_refused(text: str) -> None:
    with pytest.raises(DocumentError):
        Forecast.from_json(text)


@given(st.data())
def test_damage_anywhere_is_an_error_or_harmless(forecast: Forecast, data: st.DataObject) -> None:
    text = forecast.to_json()
    at = data.draw(st.integers(0, len(text) - 2))
    broken = (
        text[:at]
        + data.draw(st.sampled_from(["", "x", "-", "]", "null", "1e999"]))
        + text[at + 1 :]
    )
    with contextlib.suppress(DocumentError):
        Forecast.from_json(broken)


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "berth.forecast/1"},
        {"curves": {"quartz": {"points": []}}},
        {"curves": {"quartz": {"points": [{"runtime_s": [2, 1, 3]}]}}},
        {"nodes": {"measured": []}},
        {"threads": "many"},
        {"digest": None},
    ],
)
def test_a_wrong_value_is_an_error(forecast: Forecast, change: dict[str, object]) -> None:
    with pytest.raises(DocumentError):
        Forecast.from_json(json.dumps(json.loads(forecast.to_json()) | change))


@pytest.mark.parametrize("key", ["schema", "workload", "digest", "targets", "sizes", "curves"])
def test_a_missing_key_is_an_error(forecast: Forecast, key: str) -> None:
    data = json.loads(forecast.to_json())
    del data[key]
    with pytest.raises(DocumentError):
        Forecast.from_json(json.dumps(data))
