"""Copies of a model trained on several GPUs of a node: steps, memory, what abstains."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from every_kind import model

from berth.pilot.profile import RunsOn, Target
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.prediction import Basis, Interval
from berth.predictor.core.workload import workload_of
from berth.predictor.families.graph.model import graph_of
from berth.predictor.families.graph.workload import RunMode
from berth.predictor.families.training_step.training_step_family import (
    GRADIENT_BYTES,
    PCIE_MOST,
    ring,
    shipped_data_parallel,
)
from berth.predictor.hardware import platforms

ASKED = ("rtx-3090-24gb", "h100-80gb", "h100-mig-2g.20gb", "quartz")


@pytest.fixture(scope="module")
def forecaster() -> Forecaster:
    return Forecaster()


def forecast(forecaster: Forecaster, gpus: int, steps: float | None = None) -> Forecast:
    known = platforms.load()
    document = model("net", RunMode.TRAINING, steps).model_copy(
        update={"runs_on": RunsOn(targets=(Target.CPU, Target.CUDA), gpus=gpus)}
    )
    return forecaster.forecast(workload_of(document), {n: known[n] for n in ASKED}, known)


def test_a_step_of_several_gpus_is_of_all_their_batches_and_loses_to_their_gradients(
    forecaster: Forecaster,
) -> None:
    one = forecast(forecaster, 0)
    before = one.curves["rtx-3090-24gb"].points[0]
    assert one.curves == forecast(forecaster, 1).curves
    sent = graph_of(model("net", RunMode.TRAINING)).parameters * GRADIENT_BYTES
    for gpus in (2, 4, 8):
        found = forecast(forecaster, gpus)
        (point,) = found.curves["rtx-3090-24gb"].points
        assert found.gpus == point.gpus == gpus
        lost = point.runtime_s.mid / before.runtime_s.mid
        assert 1 + shipped_data_parallel().overhead < lost < 3
        assert (
            point.runtime_s.high / point.runtime_s.low
            > before.runtime_s.high / before.runtime_s.low
        )
        assert point.memory.gpu_bytes is not None
        assert before.memory.gpu_bytes is not None
        assert point.memory.gpu_bytes.mid == pytest.approx(
            gpus * (before.memory.gpu_bytes.mid + sent)
        )
        assert point.basis is Basis.SCALED
        assert point.abstained is None
        assert f"a copy on each of {gpus} GPUs" in found.sources["rtx-3090-24gb"][0].situation
        assert "h100-mig-2g.20gb" not in found.curves
        cpus = [[p.runtime_s.mid for p in f.curves["quartz"].points] for f in (one, found)]
        assert cpus[1] == pytest.approx([gpus * time for time in cpus[0]])


def test_a_job_of_so_many_steps_takes_them_together(forecaster: Forecaster) -> None:
    step = forecast(forecaster, 4).curves["rtx-3090-24gb"].points[0].runtime_s
    job = forecast(forecaster, 4, steps=1000).curves["rtx-3090-24gb"].points[0].runtime_s
    assert job.mid == pytest.approx(1000 * step.mid)


def test_more_than_were_measured_together_abstain(forecaster: Forecaster) -> None:
    (point,) = forecast(forecaster, 2 * shipped_data_parallel().most).curves["rtx-3090-24gb"].points
    assert point.abstained == "no more than 8 GPUs were measured together in training"


def test_a_gpu_whose_link_is_not_known_abstains(forecaster: Forecaster) -> None:
    known = dict(platforms.load())
    known["rtx-3090-24gb"] = known["rtx-3090-24gb"].model_copy(
        update={"name": "own", "accelerator": "titan-x-pascal-12gb"}
    )
    document = model("net", RunMode.TRAINING).model_copy(
        update={"runs_on": RunsOn(targets=(Target.CUDA,), gpus=2)}
    )
    found = forecaster.forecast(
        workload_of(document),
        {"own": known["rtx-3090-24gb"]},
        {**platforms.load(), "own": known["rtx-3090-24gb"]},
    )
    (point,) = found.curves["own"].points
    assert point.abstained == "how fast its link to other GPUs is was not published"


def test_a_faster_link_loses_less_and_its_interval_is_wider() -> None:
    one, sent = Interval(0.05, 0.06, 0.07), 1e8
    slow, fast = (
        shipped_data_parallel().shared(one, 4, sent, link) for link in (PCIE_MOST, 5 * PCIE_MOST)
    )
    assert fast.mid < slow.mid
    assert math.log(fast.high / fast.mid) > math.log(slow.high / slow.mid)


def test_more_samples_a_second_on_more_gpus_and_more_gradients_are_never_faster() -> None:
    one = Interval(0.05, 0.06, 0.07)
    by_number = [shipped_data_parallel().shared(one, n, 1e7, 16e9).mid / n for n in (1, 2, 4, 8)]
    assert all(more < fewer for fewer, more in pairwise(by_number))
    by_size = [
        shipped_data_parallel().shared(one, 4, size, 16e9).mid for size in (0.0, 1e7, 1e8, 1e9)
    ]
    assert all(more > fewer for fewer, more in pairwise(by_size))


def test_one_gpu_is_left_as_it_is_and_a_ring_of_one_sends_nothing() -> None:
    time = Interval(1.0, 2.0, 3.0)
    assert shipped_data_parallel().shared(time, 1, 1e9, 16e9) == time
    assert ring(1, 1e9, 16e9) == 0.0
    assert ring(4, 1e9, 16e9) == pytest.approx(1.5 / 16)
