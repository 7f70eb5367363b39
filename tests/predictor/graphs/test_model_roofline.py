"""The roofline of a model: never above the roofs, and platforms are ranked by it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import toy_profiles
from command_line import run
from small_models import convolutional, graph_of, tensor

from berth.pilot.documents import to_json
from berth.pilot.errors import ToolMissing
from berth.predictor.core.prediction import Basis, Bound
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.roofline import Roofline, load_of, operator_times, roofline, shares
from berth.predictor.hardware import platforms
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof, roof_of, roofs

KNOWN = roofs(platforms.shipped())
A100, SLICE, CPU = KNOWN["a100-40gb"], KNOWN["a100-mig-1g.5gb"], KNOWN["epyc-genoa-vm"]


@pytest.fixture(scope="module")
def wide() -> ModelGraph:
    """Large enough to be more than launches."""
    made = convolutional(blocks=4, channels=256)
    made.graph.input[0].CopyFrom(tensor("x", "N", 3, 56, 56))
    return graph_of(made, batch=32)


@pytest.mark.parametrize("place", KNOWN.values(), ids=lambda roof: roof.platform)
@pytest.mark.parametrize("numbers", Numbers)
def test_nothing_is_faster_than_its_roof(wide: ModelGraph, place: Roof, numbers: Numbers) -> None:
    found = roofline(wide, place, numbers)
    reach = max(1.0, *(group.share for group in shares().values()))
    peak = max(place.matrix_flops[numbers], place.vector_flops)
    rate = max(place.l2_bytes, place.dram_bytes)
    for spot in found.spots:
        assert spot.flops_per_s <= reach * min(peak, rate * spot.intensity) * (1 + 1e-9)
    assert found.seconds.low <= found.seconds.mid <= found.seconds.high
    assert found.seconds.mid == pytest.approx(sum(spot.seconds for spot in found.spots))
    assert sum(found.time_share(b) for b in Bound) == pytest.approx(1.0)
    assert found.basis is Basis.PRIOR


def test_work_is_the_graphs(wide: ModelGraph) -> None:
    found = roofline(wide, A100)
    assert sum(spot.flops for spot in found.spots) == wide.total_flops
    assert sum(spot.moved_bytes for spot in found.spots) == pytest.approx(wide.total_moved_bytes)
    half = roofline(wide, A100, Numbers.FP16)
    assert half.least_memory_bytes == found.least_memory_bytes / 2


def test_a_slice_is_slower_than_its_gpu_and_one_core_than_two(wide: ModelGraph) -> None:
    assert roofline(wide, SLICE).seconds.mid > 3 * roofline(wide, A100).seconds.mid
    known = platforms.shipped()
    one = roof_of(known["epyc-genoa-vm"], known, 1)
    assert 1 < roofline(wide, one).seconds.mid / roofline(wide, CPU).seconds.mid <= 2.05


def test_matrix_units_help_convolutions_only(wide: ModelGraph) -> None:
    load = load_of(wide, Numbers.FP32)
    full = operator_times(load, A100, Numbers.FP32).seconds
    quick = operator_times(load, A100, Numbers.TF32).seconds
    work = load.flops > 100 * (load.weight_bytes + load.activation_bytes)
    assert work.any()
    assert np.all(quick[work] < full[work])
    assert np.all(quick <= full)


def test_small_work_is_bound_by_launches() -> None:
    found = roofline(graph_of(convolutional(), batch=1), A100)
    assert found.bound is Bound.LAUNCH
    assert found.time_share(Bound.LAUNCH) > 0.95


@pytest.mark.slow
def test_shares_are_those_that_the_measurements_give() -> None:
    pytest.importorskip("pandas")
    from lab.graphs import roof_shares
    from lab.graphs.model_runs import on_one_core

    try:
        rows = roof_shares.read()
    except ToolMissing as missing:
        pytest.skip(str(missing))
    for group, own in rows.items():
        assert roof_shares.reach(own) == shares()[group]
    assert roof_shares.reach_on_cpu(on_one_core()) == shares()["cpu"]
    sheet = on_one_core(roof_shares.SAME_CORES)
    assert roof_shares.reach_on_cpu(sheet) == shares()["cpu-sheet"]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    path.write_bytes(convolutional().SerializeToString())
    return path


def test_platforms_are_ranked_by_time(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("predict", written, "--batch", 4, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    found = data["predictions"]
    assert {p["platform"] for p in found} == set(KNOWN)
    times = [p["runtime_s"]["mid"] for p in found]
    assert times == sorted(times)
    assert {p["basis"] for p in found} == {"prior"}
    assert "energy_j" in data["unverified"]


def test_the_report_names_the_bottleneck(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("predict", written, "--roofline", "--platform", "a100-40gb") == 0
    shown = capsys.readouterr().out
    assert "a100-40gb: launch-bound" in shown
    assert "Conv 3x3" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--roofline", "--platform", "a100"], "'a100' may be several devices"),
        (["--cores", 2], "--cores means nothing for a model graph"),
        (["--batch", 0], "0"),
        (["--dim", "x"], "--dim"),
    ],
)
def test_bad_input_is_one_sentence(
    written: Path, arguments: list[object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", written, *arguments) == 2
    assert said in capsys.readouterr().err


def test_options_of_models_are_refused_for_profiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.json"
    path.write_text(to_json(toy_profiles.profile()))
    assert run("predict", path, "--roofline") == 2
    assert "--roofline means nothing for a program's profile" in capsys.readouterr().err


def rooflines(graph: ModelGraph) -> list[Roofline]:
    return [roofline(graph, place, Numbers.FP16) for place in (A100, SLICE, CPU)]


@pytest.mark.slow
def test_the_picture_holds_every_platform(wide: ModelGraph) -> None:
    pytest.importorskip("matplotlib")
    from berth.plugin.pictures import roofline as roofline_picture

    drawn = roofline_picture.svg("wide", rooflines(wide))
    assert drawn == roofline_picture.svg("wide", rooflines(wide))
    assert drawn.count("axes_") >= 6
