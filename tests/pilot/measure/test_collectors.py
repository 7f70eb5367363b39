"""Collectors by name: Berth's own and those of other packages, which cannot fail a pilot."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from berth.pilot.collectors.base import Collector, Readings, Stage, measured
from berth.pilot.collectors.registry import COLLECTORS, collector_of, names_of
from berth.pilot.errors import UsageError
from berth.pilot.launch import Order, ProcessResult
from berth.pilot.options import PilotOptions, make_plan
from berth.pilot.profile import Profile
from berth.pilot.run_pilot import run_pilot


class Extra(Collector):
    """What a package of somebody else's might bring; ``fault`` names the method that fails."""

    name = "extra"
    fault = ""

    def probe(self) -> str | None:
        return self._maybe("probe")

    def prepare(self, order: Order) -> Order:
        self._maybe("prepare")
        return order

    def watch(self, shepherd_pid: int) -> None:
        self._maybe("watch")

    def finish(self, outcome: ProcessResult) -> Readings:
        self._maybe("finish")
        counters = ("cpu_time_s", "moonlight")
        return Readings({name: measured("extra", 1.0) for name in counters}, "done")

    def _maybe(self, method: str) -> None:
        if method == self.fault:
            raise ZeroDivisionError(f"in {method}")


@pytest.fixture
def extra(monkeypatch: pytest.MonkeyPatch) -> type[Extra]:
    every = {name: COLLECTORS.load(name) for name in COLLECTORS.own()}
    monkeypatch.setattr(COLLECTORS, "load_all", lambda: {**every, "extra": Extra})
    monkeypatch.setitem(COLLECTORS._loaded, "extra", Extra)
    return Extra


def pilot(*collectors: str) -> Profile:
    words = ("sh", "-c", "sleep 0.3")
    options = PilotOptions(words, dict(os.environ), collectors=collectors, repeats=1, count=True)
    return run_pilot(options)


def test_every_collector_of_berth_has_its_name_and_a_stage(tmp_path: Path) -> None:
    assert names_of(Stage.NATIVE) == ("proc", "cgroup", "perf", "nvml")
    assert names_of(Stage.EMULATED) == ("emulator",)
    for name in COLLECTORS.own():
        collector = collector_of(name, tmp_path)
        assert collector.name == name
        assert collector.probe() is None or isinstance(collector.probe(), str)


def test_a_collector_of_another_package_is_used_beside_berths_own(extra: type[Extra]) -> None:
    profile = pilot("proc", "extra")
    report = {r.name: (r.status, r.detail) for r in profile.collectors}
    assert report["extra"] == ("used", "done")
    assert profile.counters["cpu_time_s"].source == "proc", "Berth's own come first"
    assert "not in the catalogue of counters, left out: moonlight" in profile.warnings
    alone = pilot("extra")
    assert alone.counters["cpu_time_s"].source == "extra"


@pytest.mark.parametrize(
    ("fault", "stage"),
    [
        (fault, stage)
        for fault in ("probe", "prepare", "watch", "finish")
        for stage in Stage
        if fault != "watch" or stage is not Stage.EMULATED  # emulated runs are not watched
    ],
)
def test_one_that_raises_fails_alone(
    extra: type[Extra], monkeypatch: pytest.MonkeyPatch, fault: str, stage: Stage
) -> None:
    monkeypatch.setattr(extra, "fault", fault)
    monkeypatch.setattr(extra, "stage", stage)
    profile = pilot("proc", "extra")
    assert profile.complete
    assert profile.counters["page_faults"].value
    report = next(r for r in profile.collectors if r.name == "extra")
    assert report.status == ("absent" if fault == "probe" else "failed")
    assert f"ZeroDivisionError: in {fault}" in report.detail


def test_an_unknown_collector_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="there is no collector 'prof'") as refused:
        make_plan(PilotOptions(("true",), {}, collectors=("prof",)))
    assert "did you mean 'proc'?" in (refused.value.hint or "")
