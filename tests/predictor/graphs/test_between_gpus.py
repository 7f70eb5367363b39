"""Data-centre GPUs in half precision are related by matrix units and power, not bandwidth alone."""

from __future__ import annotations

import pytest
from small_models import attention, convolutional, graph_of

from berth.predictor.families.graph.between_gpus import matrix_rate
from berth.predictor.families.graph.times import times
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.hardware import platforms
from berth.predictor.hardware.by_sheet import place_named
from berth.predictor.hardware.catalogue import get
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.mig.slices import derived
from berth.predictor.hardware.roofs import roofs

SHIPPED = platforms.shipped()


def seconds(graph: ModelGraph, names: list[str], numbers: Numbers) -> dict[str, float]:
    known = dict(SHIPPED)
    known |= {name: place_named(name, known) for name in names}
    every = roofs(known)
    places = [every[name] for name in names]
    return {t.roof.platform: t.seconds.mid for t in times(graph, places, known, numbers)}


@pytest.fixture(scope="module")
def dense() -> ModelGraph:
    return graph_of(attention(layers=4, width=512, heads=8), 64, {"sequence": 384})


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("h200-sxm-141gb", 1.0, 1.0), ("h100-nvl-94gb", 0.66, 0.74), ("l4-24gb", 0.10, 0.15)],
)
def test_the_rate_of_matrix_products_is_near_what_mlperf_measured(
    name: str, least: float, most: float
) -> None:
    ours, anchor = matrix_rate(get(name)), matrix_rate(get("h100-sxm-80gb"))
    assert ours is not None
    assert anchor is not None
    assert least <= ours / anchor <= most


@pytest.mark.parametrize("name", ["rtx-5090-32gb", "mi300x-192gb", "p100-pcie-16gb"])
def test_other_devices_have_no_such_rate(name: str) -> None:
    assert matrix_rate(get(name)) is None


def test_dense_graphs_do_not_run_faster_by_bandwidth_alone(dense: ModelGraph) -> None:
    both = seconds(dense, ["h100-80gb", "h200-141gb"], Numbers.FP16)
    assert 1.0 <= both["h100-80gb"] / both["h200-141gb"] < 1.1
    plain = seconds(dense, ["h100-80gb", "h200-141gb"], Numbers.FP32)
    assert plain["h100-80gb"] / plain["h200-141gb"] > 1.0


def test_graphs_with_little_work_per_parameter_keep_the_sources_ratio() -> None:
    small = graph_of(convolutional(), 1)
    both = seconds(small, ["h100-80gb", "h200-141gb"], Numbers.FP16)
    assert both["h200-141gb"] <= both["h100-80gb"]


def test_a_time_does_not_depend_on_the_platforms_that_are_listed(dense: ModelGraph) -> None:
    known = {"h200-141gb": SHIPPED["h200-141gb"]}
    (alone,) = times(dense, [roofs(known)["h200-141gb"]], known, Numbers.FP16)
    together = seconds(dense, ["h100-80gb", "h200-141gb"], Numbers.FP16)
    assert alone.seconds.mid == pytest.approx(together["h200-141gb"], rel=1e-6)


def test_a_slice_moves_with_its_gpu(dense: ModelGraph) -> None:
    slice_ = derived("h200-141gb-mig-1g.18gb", SHIPPED)
    assert slice_ is not None
    both = seconds(dense, ["h200-141gb", slice_.name], Numbers.FP16)
    assert both[slice_.name] > 3 * both["h200-141gb"]
