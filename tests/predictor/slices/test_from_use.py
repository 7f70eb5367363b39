"""Slow-downs on slices by what monitoring recorded of a program's runs on the whole GPU."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples

from berth.pilot.profile import RunsOn, Target
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.gpu_use import GpuUse
from berth.predictor.core.prediction import Basis
from berth.predictor.core.workload import workload_of
from berth.predictor.families.history.workload import HistoryWorkload, PastRun
from berth.predictor.families.slices.bundle import verify
from berth.predictor.families.slices.physics import most_log_slowdown, share_of
from berth.predictor.families.slices.projected import SLACK, from_use
from berth.predictor.hardware import platforms
from berth.predictor.hardware.mig.slices import every_slice, slice_of

KNOWN = {**{p.name: p for p in every_slice(platforms.load())}, **platforms.load()}
OF_A100 = {name: p for name, p in KNOWN.items() if name.startswith("a100-40gb")}
SHARES = {name: share_of(*cut) for name, p in OF_A100.items() if (cut := slice_of(p)) is not None}
MANIFEST = verify()
SMALL, LARGE = "a100-40gb-mig-1g.5gb", "a100-40gb-mig-3g.20gb"
SHARE = st.floats(0, 1)


@settings(deadline=None, max_examples=examples(60))
@given(SHARE, SHARE, st.none() | SHARE)
def test_no_slice_is_slower_than_the_utilisation_allows_or_than_a_smaller_one(
    utilisation: float, more: float, of_memory: float | None
) -> None:
    use = GpuUse(utilisation, max(utilisation, more), of_memory, 3)
    made = from_use(use, SHARES, MANIFEST)
    assert made is not None
    for name, share in SHARES.items():
        slowdown = made[name]
        assert slowdown.low <= slowdown.mid <= slowdown.high
        most = most_log_slowdown(use.most, MANIFEST.shares.effective(share))
        assert math.log(slowdown.high) <= most + SLACK + 1e-9
        assert slowdown.mid >= 1 - 1e-9
        for other, theirs in SHARES.items():
            if share.within(theirs):
                assert slowdown.mid >= made[other].mid - 1e-9


def runs(*utilisations: float | None, memory_gib: float = 3.0, gpus: int = 1) -> HistoryWorkload:
    return HistoryWorkload(
        name="infer",
        runs=tuple(
            PastRun(
                platform="a100-40gb", cores=8, gpus=gpus, runtime_s=600.0 + number,
                peak_gpu_bytes=memory_gib * 2**30, gpu_utilisation=share,
                gpu_memory_utilisation=None if share is None else share / 3,
            )
            for number, share in enumerate(utilisations)
        ),
        runs_on=RunsOn(targets=(Target.CUDA,)),
    )  # fmt: skip


def forecast(document: HistoryWorkload) -> Forecast:
    return Forecaster().forecast(workload_of(document), OF_A100, KNOWN)


def test_a_program_known_from_past_jobs_is_predicted_on_slices_by_its_use() -> None:
    idle, busy, unknown = (
        forecast(runs(*three)) for three in ((0.1, 0.12, 0.14), (0.9, 0.95, 0.97), (None,) * 3)
    )
    of_idle, of_busy, of_unknown = (
        one.curves[SMALL].points[0].runtime_s for one in (idle, busy, unknown)
    )
    assert of_idle.mid < 1.8 * 601
    assert of_busy.mid > 3.5 * 601
    assert of_idle.high / of_idle.low < of_unknown.high / of_unknown.low / 2
    assert idle.curves[SMALL].points[0].basis is Basis.SCALED
    assert idle.curves[SMALL].points[0].memory.fits_gpus(KNOWN[SMALL].memory_bytes)
    large = forecast(runs(0.1, 0.12, memory_gib=4.0)).curves
    assert not large[SMALL].points[0].memory.fits_gpus(KNOWN[SMALL].memory_bytes)
    assert large[LARGE].points[0].memory.fits_gpus(KNOWN[LARGE].memory_bytes)


def test_the_busiest_run_widens_the_interval_upwards() -> None:
    steady, once_busy = (
        forecast(runs(*three)).curves[SMALL].points[0].runtime_s
        for three in ((0.4, 0.4, 0.4), (0.4, 0.4, 0.97))
    )
    assert once_busy.mid == pytest.approx(steady.mid)
    assert once_busy.high > 1.2 * steady.high


def test_use_of_several_gpus_says_nothing_of_one() -> None:
    assert runs(0.1, 0.1, gpus=2).gpu_use("a100-40gb") is None
    assert runs(0.1, 0.1).gpu_use("a100-80gb") is None
    assert runs(None, None).gpu_use("a100-40gb") is None
    use = runs(0.1, None, 0.3).gpu_use("a100-40gb")
    assert use == GpuUse(0.2, 0.3, pytest.approx(0.2 / 3), 2)
