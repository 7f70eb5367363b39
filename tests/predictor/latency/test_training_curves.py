"""Training steps through the Forecaster: curves over cores, what bounds, widths of families."""

from __future__ import annotations

import pytest
from small_models import convolutional, graph_of

from berth.pilot.errors import UsageError
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.prediction import Basis, Bound
from berth.predictor.core.workload import workload_of
from berth.predictor.families.graph.workload import ModelWorkload, RunMode
from berth.predictor.families.training_step.predictor import family_widths
from berth.predictor.graphs.stored import to_lines
from berth.predictor.hardware import platforms
from berth.predictor.hardware.ceilings import core_grid

KNOWN = platforms.shipped()


@pytest.fixture(scope="module")
def forecast():  # type: ignore[no-untyped-def]
    graph = to_lines(graph_of(convolutional(), batch=8))
    document = ModelWorkload(name="small", mode=RunMode.TRAINING, batch=8, graph=graph)
    return Forecaster().forecast(workload_of(document), KNOWN)


def test_cpus_are_predicted_over_their_cores(forecast) -> None:  # type: ignore[no-untyped-def]
    for name, curve in forecast.curves.items():
        if not KNOWN[name].is_gpu:
            assert [point.cores for point in curve.points] == sorted(core_grid(KNOWN[name]))


def test_what_bounds_a_step_is_said(forecast) -> None:  # type: ignore[no-untyped-def]
    bounds = {point.bound for curve in forecast.curves.values() for point in curve.points}
    assert Bound.UNKNOWN not in bounds


def test_a_measured_device_has_the_width_of_unseen_families(forecast) -> None:  # type: ignore[no-untyped-def]
    (point,) = forecast.curves["rtx-3090-24gb"].points
    assert point.basis is Basis.CALIBRATED
    width = point.runtime_s.log_width
    assert width >= family_widths()["rtx-3090-24gb"].log_width - 1e-9
    assert forecast.sources["rtx-3090-24gb"][0].situation == "unseen family, amp"


def test_a_platform_without_the_precision_has_no_explanation_and_says_so() -> None:
    graph = to_lines(graph_of(convolutional(), batch=8))
    document = ModelWorkload(
        name="small", mode=RunMode.TRAINING, batch=8, precision="fp16", graph=graph
    )
    with pytest.raises(UsageError, match="epyc-genoa-vm does not compute in fp16"):
        Forecaster().explain_each(workload_of(document), [KNOWN["epyc-genoa-vm"]], KNOWN)
