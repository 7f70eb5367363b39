"""The learnt time of a model graph: features, fit, bundle, and what is said out of range."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, helper
from small_models import constant, convolutional, graph_of, model, tensor

from berth.pilot.errors import UsageError
from berth.plugin.cli import main
from berth.predictor import predict
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Basis
from berth.predictor.families.graph.latency import bundle
from berth.predictor.families.graph.latency.features import (
    GRAPH_FEATURES,
    GROUPS,
    ROOF_FEATURES,
    graph_features,
    roof_features,
    work_of,
)
from berth.predictor.families.graph.latency.predictor import LatencyPredictor, shared
from berth.predictor.families.graph.latency.process import (
    DESCRIPTORS,
    TERMS,
    descriptors,
    terms,
)
from berth.predictor.families.graph.sources import (
    IMAGES_IN_HALF,
    MEASURED,
    NEAREST,
    OPERATORS,
    TRANSFER,
    Time,
    known_device,
)
from berth.predictor.families.graph.times import times
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.hardware import platforms
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.dominance import better_pairs
from berth.predictor.hardware.roofs import roofs
from lab.latency.fit_latency import Knobs, fit, weigh

KNOWN = platforms.shipped()
ROOFS = roofs(KNOWN)
GPU, CPU = ROOFS["rtx-3090-24gb"], ROOFS["i9-10940x"]


def image_model(batch: int, channels: int = 64) -> ModelGraph:
    return graph_of(network(channels), batch=batch)


def network(channels: int = 64) -> ModelProto:
    """Like those that were measured: a deep convolutional network of images."""
    made = convolutional(blocks=24, channels=channels)
    made.graph.input[0].CopyFrom(tensor("x", "N", 3, 56, 56))
    return made


def products() -> ModelGraph:
    """Two products with weights and one of activations."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Softmax", ["a"], ["s"]),
        helper.make_node("MatMul", ["s", "a"], ["y"]),
    ]
    made = model(nodes, [constant("w", 32, 32)], [tensor("x", "N", 32, 32)])
    return graph_of(made, batch=2)


def test_a_batch_divides_out_of_the_features_of_a_graph() -> None:
    one, many = (work_of(image_model(batch)) for batch in (1, 8))
    np.testing.assert_allclose(graph_features(one), graph_features(many), rtol=0.02, atol=1e-6)
    np.testing.assert_allclose(
        roof_features(one, [GPU], [Numbers.FP16], 8),
        roof_features(many, [GPU], [Numbers.FP16], 8),
        rtol=0.02,
    )


def test_time_under_roofs_is_the_sum_of_its_groups_and_above_each_bound() -> None:
    work = work_of(image_model(4))
    found = roof_features(work, [GPU, CPU], [Numbers.FP16, Numbers.FP32], 4)
    at = {name: place for place, name in enumerate(ROOF_FEATURES)}
    groups = found[:, [at[f"{group}_s"] for group in GROUPS]].sum(axis=1)
    np.testing.assert_allclose(found[:, at["roof_s"]], groups)
    assert (found[:, at["roof_s"]] >= found[:, at["compute_s"]] * (1 - 1e-12)).all()
    assert (found[:, at["roof_s"]] >= found[:, at["memory_s"]] * (1 - 1e-12)).all()
    assert (found[:, at["fused_s"]] <= found[:, at["roof_s"]]).all()


def test_products_of_activations_are_told_from_those_with_weights() -> None:
    found = dict(zip(GRAPH_FEATURES, graph_features(work_of(products())), strict=True))
    assert (found["nodes_matmul"], found["nodes_product"], found["nodes_softmax"]) == (1, 1, 1)
    assert found["macs_matmul"] == found["macs_product"] == 32**3


def inputs_of(graph: ModelGraph) -> tuple[Floats, Floats]:
    work, batch = work_of(graph), np.array([float(graph.batch)])
    roof = roof_features(work, [GPU], [Numbers.FP16], graph.batch)
    features = graph_features(work)[None]
    return terms(features, roof, batch), descriptors(features, roof, batch)


def test_inputs_are_finite_and_named() -> None:
    for graph in (image_model(2), products()):
        for names, values in zip((TERMS, DESCRIPTORS), inputs_of(graph), strict=True):
            assert values.shape == (1, len(names))
            assert np.isfinite(values).all()


def made_up(count: int = 60, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Terms, descriptors, and log seconds of exactly 2 and 3 times the first two terms."""
    random = np.random.default_rng(seed)
    work = random.lognormal(size=(count, 4))
    return work, random.normal(size=(count, 5)), np.log(work[:, :2] @ np.array([2.0, 3.0]))


def test_weights_of_a_sum_are_found_and_never_negative() -> None:
    work, _, log_seconds = made_up()
    found = weigh(work, np.exp(log_seconds), ridge=1e-6)
    np.testing.assert_allclose(found[:2], [2, 3], rtol=1e-3)
    assert (weigh(work, np.exp(-log_seconds)) >= 0).all()


def test_far_from_every_measured_model_the_sum_stands_alone_and_is_less_sure() -> None:
    work, like, log_seconds = made_up()
    log_seconds = log_seconds + 0.3 * np.sign(like[:, 0])
    learnt = fit(work, like, log_seconds, Knobs(0.3, 0.01))
    near = learnt(work, like)
    far = learnt(work, np.tile([4.0, -4.0], 3)[None, :5] * np.full((60, 1), 50.0))
    np.testing.assert_allclose(far.log_seconds, learnt.base(work) + learnt.offset, atol=0.1)
    assert far.difficulty.min() > near.difficulty.max() + 0.5
    assert np.abs(near.log_seconds - log_seconds).mean() < 0.05


def test_the_shipped_bundle_is_whole_and_knows_six_platforms() -> None:
    manifest = bundle.verify()
    usual = {one.platform for one in manifest.settings if one.usual}
    assert usual >= {
        "rtx-3090-24gb", "rtx-5090-32gb", "rtx-pro-6000-maxq-96gb", "i9-10940x", "i7-12700h",
        "epyc-genoa-vm",
    }  # fmt: skip
    assert usual <= KNOWN.keys()
    assert manifest.figures
    shared()


@pytest.fixture(scope="module")
def learnt() -> LatencyPredictor:
    return LatencyPredictor(bundle.load())


def test_measured_platforms_are_told_in_their_precision_alone(learnt: LatencyPredictor) -> None:
    graph = image_model(256)
    half = learnt.times(graph, list(ROOFS.values()), Numbers.FP16)
    assert {one.platform for one in half} == {
        "rtx-3090-24gb", "rtx-5090-32gb", "rtx-pro-6000-maxq-96gb",
    }  # fmt: skip
    full = learnt.times(graph, list(ROOFS.values()))
    assert {one.platform for one in full} == {"i9-10940x", "i7-12700h", "epyc-genoa-vm"}


def test_a_batch_far_from_those_measured_is_wide_and_says_so(learnt: LatencyPredictor) -> None:
    def told(batch: int) -> tuple[float, str | None, Basis]:
        (one,) = learnt.times(image_model(batch), [GPU], Numbers.FP16)
        return one.seconds.high / one.seconds.mid, one.note, one.basis

    usual, far = told(512), told(1)
    assert far[0] > 3 * usual[0]
    assert "batch 1 is far from those measured" in str(far[1])
    assert far[2] is Basis.PRIOR


def test_a_prediction_is_remembered_by_the_graph_not_the_object(learnt: LatencyPredictor) -> None:
    first = learnt.times(image_model(64), [GPU], Numbers.FP16)
    assert learnt.times(image_model(64), [GPU], Numbers.FP16) is first
    assert learnt.times(image_model(65), [GPU], Numbers.FP16) is not first


def test_more_work_takes_longer(learnt: LatencyPredictor) -> None:
    narrow, wide = (
        learnt.times(image_model(256, channels), [GPU], Numbers.FP16)[0] for channels in (32, 128)
    )
    assert wide.seconds.mid > narrow.seconds.mid


def answer(source: str, seconds: float, *, basis: Basis = Basis.PRIOR, models: int = 0) -> Time:
    return Time(around(seconds, 0.4), basis, source, models=models)


def test_sources_are_combined_by_their_errors_and_the_roofline_is_last() -> None:
    places = [ROOFS[name] for name in ("i9-10940x", "a100-80gb", "power9")]
    measured = answer(MEASURED, 1.0, basis=Basis.CALIBRATED)

    def first(*_: object) -> dict[str, list[Time]]:
        return {"i9-10940x": [measured], "a100-80gb": [answer(TRANSFER, 1.0)]}

    def second(*_: object) -> dict[str, list[Time]]:
        return {"a100-80gb": [answer(OPERATORS, 2.0)]}

    found = {
        one.roof.platform: one
        for one in times(
            image_model(1),
            places,
            {one.platform: KNOWN[one.platform] for one in places},
            None,
            [first, second],
        )
    }
    both = found["a100-80gb"]
    assert found["i9-10940x"].seconds.mid == pytest.approx(1.0, rel=0.05)
    assert 1.0 < both.seconds.mid < 2.0
    assert [share.source for share in both.shares] == [TRANSFER, OPERATORS]
    assert {share.situation for share in both.shares} == {IMAGES_IN_HALF}
    assert found["i9-10940x"].basis is Basis.CALIBRATED
    assert found["i9-10940x"].shares[0].situation == known_device(unlike=False)
    assert found["power9"].source == "roofline"
    assert found["power9"].basis is Basis.PRIOR


def test_a_new_device_is_told_by_all_that_know_others_and_by_its_own_runs_when_it_has_some() -> (
    None
):
    gpu, half = [ROOFS["a100-80gb"]], Numbers.FP16
    (new,) = times(image_model(64), gpu, KNOWN, half)
    assert {share.source for share in new.shares} >= {TRANSFER, NEAREST, OPERATORS}
    assert {share.situation for share in new.shares} == {IMAGES_IN_HALF}
    ran = answer(TRANSFER, 1.0, basis=Basis.CALIBRATED, models=20)
    (known,) = times(image_model(64), gpu, KNOWN, half, [lambda *_: {"a100-80gb": [ran]}])
    assert known.shares[0].situation == "new GPU, 16 runs"
    assert known.basis is Basis.CALIBRATED


@pytest.mark.parametrize("numbers", [Numbers.FP16, Numbers.FP32])
def test_a_better_gpu_is_not_slower_and_others_that_are_asked_do_not_matter(
    numbers: Numbers,
) -> None:
    every = times(image_model(8), list(ROOFS.values()), KNOWN, numbers)
    seconds = {one.roof.platform: one.seconds for one in every}
    for better, worse in better_pairs([one.roof for one in every], KNOWN, numbers):
        assert seconds[better].mid <= seconds[worse].mid * (1 + 1e-9)
    pairs = better_pairs([one.roof for one in every], KNOWN, numbers)
    assert {("h200-141gb", "h100-80gb"), ("h100-mig-4g.40gb", "h100-mig-3g.40gb")} <= set(pairs)
    for asked in (["h100-80gb"], ["power9", "a100-40gb", "h100-mig-3g.40gb"]):
        alone = times(image_model(8), [ROOFS[name] for name in asked], KNOWN, numbers)
        assert {one.roof.platform: one.seconds.mid for one in alone} == pytest.approx(
            {name: seconds[name].mid for name in asked}
        )


def test_one_call_tells_time_memory_and_energy(tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    path.write_bytes(network().SerializeToString())
    (one,) = predict(path, batch=1, platform="i9-10940x")
    assert one.basis is Basis.CALIBRATED
    assert one.runtime_s.low < one.runtime_s.mid < one.runtime_s.high
    assert one.memory.memory.mid > 0
    assert one.energy is not None
    assert one.samples_per_s == pytest.approx(1 / one.runtime_s.mid)
    assert {p.platform for p in predict(path, batch=1)} == set(KNOWN)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"platform": "i9-10940"}, "no platform"),
        ({"precision": "fp7"}, "no precision"),
        ({"batch": 4}, "stands at batch 2"),
    ],
)
def test_what_cannot_be_asked_is_said(asked: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        predict(products(), **asked)  # type: ignore[arg-type]


def test_the_command_names_where_each_time_is_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.onnx"
    path.write_bytes(network().SerializeToString())
    asked = ["predict", str(path), "--batch", "1"]
    asked += ["--platform", "i9-10940x", "--platform", "power9"]
    main(asked)
    shown = capsys.readouterr().out
    assert "calibrated: measured models (fp32" in shown
    assert "prior: transfer process" in shown
    main([*asked, "--json"])
    found = {p["platform"]: p for p in json.loads(capsys.readouterr().out)["predictions"]}
    assert found["power9"]["source"] == "transfer process"
    assert found["i9-10940x"]["basis"] == "calibrated"
