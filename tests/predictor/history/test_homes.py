"""A program that ran on CPUs and on GPUs has a home of each: kinds are compared with the home whose
executables they run."""

from __future__ import annotations

import pytest

from berth.pilot.profile import RunsOn
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.prediction import Basis
from berth.predictor.core.workload import workload_of
from berth.predictor.families.history.workload import HistoryWorkload, KindRatio, PastRun
from berth.predictor.hardware import platforms as known_platforms

CPU, OTHER_CPU, GPU, OTHER_GPU = "quartz", "rome-7742", "p100-16gb", "lassen-v100"


def ratio(platform: str, than: str, mid: float, **changes: object) -> KindRatio:
    known: dict[str, object] = {"low": mid / 1.2, "mid": mid, "high": mid * 1.2, "programs": 9}
    return KindRatio.model_validate({"platform": platform, "than": than, **known, **changes})


def forecast(*ratios: KindRatio, gpu_times: tuple[float, ...] = (20.0, 22.0)) -> Forecast:
    """A program with three runs on a CPU kind and two on a GPU kind."""
    runs = [PastRun(platform=CPU, cores=16, runtime_s=s) for s in (300.0, 310.0, 290.0)]
    runs += [PastRun(platform=GPU, cores=8, gpus=1, runtime_s=s) for s in gpu_times]
    document = HistoryWorkload(
        name="app", runs=tuple(runs), runs_on=RunsOn(targets=("cpu", "cuda")), ratios=ratios
    )
    return Forecaster().forecast(workload_of(document), known_platforms.load())


BOTH = ratio(OTHER_CPU, CPU, 0.5), ratio(OTHER_GPU, GPU, 0.6)


def test_each_kind_is_compared_with_the_home_whose_executables_it_runs() -> None:
    known = forecast(*BOTH)
    for platform, seconds in ((CPU, 300.0), (OTHER_CPU, 150.0), (GPU, 21.0), (OTHER_GPU, 12.6)):
        time = known.curves[platform].points[-1].runtime_s
        assert time.mid == pytest.approx(seconds, rel=0.02)
    assert known.curves[OTHER_GPU].points[0].basis is Basis.LEARNED


def test_only_the_first_homes_error_is_shared() -> None:
    known = forecast(*BOTH)
    of_cpus = known.ratio(OTHER_CPU, 16, CPU, 16)
    assert of_cpus is not None
    assert of_cpus.high / of_cpus.low < 1.5
    across = known.ratio(OTHER_GPU, 1, CPU, 16)
    time = known.curves[OTHER_GPU].points[0].runtime_s
    assert across is not None
    assert across.high / across.low > time.high / time.low


def test_a_ratio_by_kernels_alone_is_a_prior_and_names_them() -> None:
    known = forecast(ratio(OTHER_CPU, CPU, 0.5, programs=0, kernels=17))
    point = known.curves[OTHER_CPU].points[0]
    assert point.basis is Basis.PRIOR
    assert known.source_of(OTHER_CPU) == "history: ratio of benchmark kernels"
    assert "17 benchmark kernels" in known.sources[OTHER_CPU][0].situation


def test_two_ratios_of_one_platform_are_refused() -> None:
    with pytest.raises(ValueError, match="two ratios of one platform"):
        forecast(ratio(OTHER_CPU, CPU, 0.5), ratio(OTHER_CPU, GPU, 0.5))
