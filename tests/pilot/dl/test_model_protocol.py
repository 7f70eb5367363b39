"""Warm-up, repeats, cool-down; energy by counters, by samples, or the reason why not."""

from __future__ import annotations

import types
from pathlib import Path

import numpy as np
import pytest

from berth.pilot.dl.document import Protocol
from berth.pilot.dl.meters import EnergyReading, NoMeter, NvmlMeter, integrate, rapl
from berth.pilot.dl.protocol import energy_measurements, follow
from berth.pilot.dl.weights import RandomValues, Stub, TooLarge, check_cap


class Counted:
    """A subject that counts its runs."""

    def __init__(self) -> None:
        self.runs = self.bursts = self.warm = 0

    def run(self) -> float:
        self.runs += 1
        return 0.5

    def burst(self, count: int) -> None:
        self.bursts += count

    def before_repeats(self) -> None:
        self.warm = self.runs


class Meter:
    """Ten joules a window."""

    def start(self) -> None:
        pass

    def stop(self) -> EnergyReading:
        return EnergyReading(10.0, 2.0, "test")


def test_warm_up_runs_are_not_counted_and_each_part_is_preceded_by_rest() -> None:
    subject, rests = Counted(), []
    asked = Protocol(warmup=3, repeats=7, cool_down_s=1.5, energy_s=1e-6)
    found = follow(subject, asked, Meter(), sleep=rests.append)
    assert (subject.warm, subject.runs) == (3, 10)
    assert found.seconds == (0.5,) * 7
    assert len(found.processor_s) == 7
    assert rests == [1.5, 1.5]


def test_long_models_are_repeated_at_least_three_times() -> None:
    found = follow(Counted(), Protocol(repeats=100, repeats_s=1e-9), Meter(), sleep=lambda _: None)
    assert len(found.seconds) == 3


def test_energy_is_of_one_run_of_the_window() -> None:
    asked = Protocol(warmup=0, repeats=1, energy_s=1e-6)
    found = follow(Counted(), asked, Meter(), sleep=lambda _: None)
    told = energy_measurements(found)
    assert told["energy_j"].value == pytest.approx(10 / found.energy_runs)
    assert told["power_w"].value == 5.0


def test_no_energy_says_why() -> None:
    meter = NoMeter("rapl", "nobody may read it")
    asked = Protocol(warmup=0, repeats=1, energy_s=1e-6)
    told = energy_measurements(follow(Counted(), asked, meter, sleep=lambda _: None))
    assert told["energy_j"].value is None
    assert told["energy_j"].note == "nobody may read it"


class FakeNvml(types.SimpleNamespace):
    """NVML with an energy counter (millijoules), or with power (milliwatts) alone."""

    class NVMLError(Exception):
        pass

    def __init__(self, energies: list[float] | None) -> None:
        super().__init__()
        self.energies = energies

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: object) -> float:  # noqa: N802
        if not self.energies:
            raise self.NVMLError("not supported")
        return self.energies.pop(0)

    def nvmlDeviceGetPowerUsage(self, handle: object) -> float:  # noqa: N802
        if self.energies is None:
            raise self.NVMLError("not supported")
        return 250_000.0


def test_nvml_energy_counter() -> None:
    meter = NvmlMeter(FakeNvml([1_000.0, 4_500.0]), None)
    meter.start()
    assert meter.stop().joules == 3.5


def test_nvml_counter_that_goes_away_is_missing() -> None:
    meter = NvmlMeter(FakeNvml([1_000.0]), None)
    meter.start()
    assert meter.stop().joules is None


def test_nvml_power_is_integrated_where_there_is_no_counter() -> None:
    times = iter([0.0, *[0.5] * 1_000])
    meter = NvmlMeter(FakeNvml([]), None, clock=lambda: next(times))
    meter.start()
    told = meter.stop()
    assert told.joules == pytest.approx(125.0)
    assert told.note == "integrated power samples"


def test_a_gpu_without_power_is_missing() -> None:
    meter = NvmlMeter(FakeNvml(None), None)
    meter.start()
    told = meter.stop()
    assert (told.joules, told.note) == (None, "NVML tells no power")


def test_integration_keeps_to_the_window() -> None:
    samples = [(0.0, 100.0), (1.0, 200.0), (2.0, 200.0)]
    assert integrate(samples, 0.0, 2.0) == 350.0
    assert integrate(samples, 0.0, 4.0) == 750.0
    assert integrate([], 0.0, 1.0) is None


def test_rapl_adds_packages_and_wraps(tmp_path: Path) -> None:
    assert rapl(tmp_path).stop().note == "this machine shows no RAPL counters"
    for number, start in ((0, 1_000_000), (1, 9_000_000)):
        folder = tmp_path / f"intel-rapl:{number}"
        folder.mkdir()
        (folder / "energy_uj").write_text(str(start))
        (folder / "max_energy_range_uj").write_text("10000000")
    (tmp_path / "intel-rapl:0:0").mkdir()  # a core's own, part of its package
    meter = rapl(tmp_path)
    meter.start()
    for number, end in ((0, 3_000_000), (1, 500_000)):
        (tmp_path / f"intel-rapl:{number}" / "energy_uj").write_text(str(end))
    assert meter.stop().joules == pytest.approx(2.0 + 1.5)


def test_made_up_weights_keep_activations_near_one() -> None:
    maker = RandomValues()
    x = maker.input("float32", (64, 512))
    for n in range(12):
        x = x @ maker.weight(Stub(f"w{n}", "float32", (512, 512)))
    assert 0.05 < float(np.std(x)) < 20
    vector = maker.weight(Stub("variance", "float32", (512,)))
    assert 0.5 <= vector.min() <= vector.max() <= 1.5
    with pytest.raises(TooLarge, match="allowed"):
        check_cap([Stub("w", "float32", (1024, 1024))], 2**20)
