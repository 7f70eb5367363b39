"""Copies of a model on several GPUs of a node: what MLPerf's rates say, in every forecast."""

from __future__ import annotations

import pytest
from every_kind import model

from berth.pilot.profile import RunsOn, Target
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.prediction import Basis, Prediction
from berth.predictor.core.workload import workload_of
from berth.predictor.families.graph.graph_family import MOST_COPIES
from berth.predictor.families.graph.workload import RunMode
from berth.predictor.hardware import platforms

ASKED = ("rtx-3090-24gb", "h100-80gb", "h100-mig-2g.20gb", "quartz")


@pytest.fixture(scope="module")
def forecaster() -> Forecaster:
    return Forecaster()


def forecast(forecaster: Forecaster, gpus: int) -> Forecast:
    known = platforms.load()
    document = model("net", RunMode.INFERENCE).model_copy(
        update={"runs_on": RunsOn(targets=(Target.CPU, Target.CUDA), gpus=gpus)}
    )
    return forecaster.forecast(workload_of(document), {n: known[n] for n in ASKED}, known)


def test_one_two_four_and_eight_gpus_share_the_steps(forecaster: Forecaster) -> None:
    one = forecast(forecaster, 0)
    before = one.curves["h100-80gb"].points[0]
    assert one.curves["h100-80gb"] == forecast(forecaster, 1).curves["h100-80gb"]
    for gpus in (2, 4, 8):
        found = forecast(forecaster, gpus)
        (point,) = found.curves["h100-80gb"].points
        assert found.gpus == point.gpus == gpus
        assert point.runtime_s.mid == pytest.approx(before.runtime_s.mid / gpus)
        assert spread(point) > spread(before)
        assert point.memory.gpu_bytes is not None
        assert before.memory.gpu_bytes is not None
        assert point.memory.gpu_bytes.mid == pytest.approx(gpus * before.memory.gpu_bytes.mid)
        assert point.energy_j is not None
        assert before.energy_j is not None
        assert point.energy_j.mid == pytest.approx(before.energy_j.mid, rel=0.02)
        assert point.basis.rank >= Basis.SCALED.rank
        assert "a copy on each" in found.sources["h100-80gb"][0].situation
        assert "h100-mig-2g.20gb" not in found.curves
        cpus = [[p.runtime_s for p in f.curves["quartz"].points] for f in (one, found)]
        assert cpus[0] == cpus[1]


def test_the_order_of_gpus_stays(forecaster: Forecaster) -> None:
    ratios = []
    for gpus in (1, 8):
        curves = forecast(forecaster, gpus).curves
        fast, slow = (curves[name].points[0].runtime_s.mid for name in ("h100-80gb", ASKED[0]))
        ratios.append(slow / fast)
    assert ratios[0] == pytest.approx(ratios[1])


def test_more_than_were_measured_together_are_not_known(forecaster: Forecaster) -> None:
    (point,) = forecast(forecaster, 2 * MOST_COPIES).curves["h100-80gb"].points
    assert point.abstained == f"no more than {MOST_COPIES} GPUs were measured together"


def spread(point: Prediction) -> float:
    return point.runtime_s.high / point.runtime_s.low
