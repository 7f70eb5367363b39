"""A training step's time: the cost model, the bundle, the command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import toy_profiles

pytest.importorskip("onnx", reason="needs the extra `train`")

from small_models import attention, convolutional, graph_of

from berth.pilot.documents import to_json
from berth.pilot.errors import DocumentError
from berth.plugin.cli import main
from berth.predictor.core.prediction import Basis
from berth.predictor.families.graph.latency.features import graph_features, work_of
from berth.predictor.families.training_step import bundle
from berth.predictor.families.training_step.predictor import StepModel, StepPrediction, predict
from berth.predictor.families.training_step.step_costs import (
    STEP_FEATURES,
    TERMS,
    cost_seconds,
    step_features,
    terms,
)
from berth.predictor.hardware import platforms
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.dominance import better_pairs
from berth.predictor.hardware.roofs import roof_of
from lab.ground.onnx_export import agreement
from lab.steps.fit_steps import Process, fit_rates

GPU, CPU = "rtx-3090-24gb", "epyc-genoa-vm"


@pytest.fixture(scope="module")
def model() -> StepModel:
    return bundle.load()


@pytest.fixture
def features() -> np.ndarray:
    graphs = [graph_of(convolutional(blocks=n, channels=8 * n), batch=1) for n in (1, 2, 3, 5, 8)]
    graphs.append(graph_of(attention(layers=4), batch=1, sizes={"sequence": 16}))
    return np.array([graph_features(work_of(graph)) for graph in graphs])


def test_work_grows_with_the_batch_but_parameters_and_launches_do_not(
    features: np.ndarray,
) -> None:
    one, eight = (terms(features, np.full(len(features), b)) for b in (1.0, 8.0))
    ratio = np.divide(eight, one, out=np.ones_like(one), where=one > 0)
    assert set(ratio[:, :4].ravel().tolist()) <= {1.0, 8.0}
    assert np.array_equal(one[:, 4:], eight[:, 4:])
    assert (one[:, 0] > 0).all()


def test_rates_are_found_again_and_never_negative(features: np.ndarray) -> None:
    table = np.vstack([terms(features, np.full(len(features), b)) for b in (1.0, 4.0, 32.0, 99.0)])
    true = np.array([2e-12, 0.0, 3e-9, 1e-9, 0.0, 2e-5])
    rates = fit_rates(table, cost_seconds(table, true[None]))
    assert (rates >= 0).all()
    assert np.allclose(cost_seconds(table, rates[None]), cost_seconds(table, true[None]), rtol=1e-6)


def test_features_are_as_many_as_named_and_finite(features: np.ndarray) -> None:
    rates = np.full((1, len(TERMS)), 1e-9)
    found = step_features(features, np.full(len(features), 3.0), np.zeros(len(features)), rates)
    assert found.shape == (len(features), len(STEP_FEATURES))
    assert np.isfinite(found).all()
    assert np.allclose(found[:, -len(TERMS) :].sum(axis=1), 1)


def test_a_process_says_what_it_was_told_and_nothing_far_away() -> None:
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(30, 4))
    labels = 0.2 * rows[:, 0]
    process = Process(rows, labels)
    near = np.abs(process(rows) - labels).mean()
    assert near < 0.5 * np.abs(labels).mean()
    assert np.abs(process(rows + 1e4)).max() < 1e-6


def test_the_onnx_says_what_the_process_says() -> None:
    draw = np.random.default_rng(0)
    process = Process(draw.normal(size=(40, len(STEP_FEATURES))), draw.normal(size=40))
    asked = draw.normal(size=(9, len(STEP_FEATURES)))
    assert agreement(process.onnx(), {"features": asked}, process(asked), 1e-6) < 1e-8


def test_a_device_that_was_measured_is_calibrated_and_others_are_priors(model: StepModel) -> None:
    graph = graph_of(convolutional(blocks=4, channels=64), batch=16)
    known = platforms.shipped()
    here, there, core = predict(graph, [GPU, "a100-40gb", CPU], known, model)
    assert (here.basis, there.basis, core.basis) == (Basis.CALIBRATED, Basis.PRIOR, Basis.SCALED)
    assert (here.learnt_on, there.learnt_on, core.learnt_on) == (GPU, GPU, CPU)
    assert (here.precision, core.precision) == ("amp", "fp32")
    for one in (here, there, core):
        assert 0 < one.seconds.low < one.seconds.mid < one.seconds.high
    width = [one.seconds.high / one.seconds.mid for one in (here, there)]
    assert width[0] <= width[1] * (1 + 1e-9)


@pytest.mark.parametrize("batch", [1, 16, 128])
def test_a_gpu_better_in_every_respect_is_not_slower(model: StepModel, batch: int) -> None:
    graph = graph_of(convolutional(blocks=4, channels=64), batch=batch)
    known = {**platforms.shipped()}
    gpus = [name for name, one in known.items() if one.is_gpu]
    mid = {one.platform: one.seconds.mid for one in predict(graph, gpus, known, model)}
    places = [roof_of(known[name], known, known[name].cores) for name in gpus]
    pairs = better_pairs(places, known, Numbers.FP16)
    assert len(pairs) > 20
    assert not [(a, b) for a, b in pairs if mid[a] > mid[b] * (1 + 1e-9)]
    (alone,) = predict(graph, gpus[:1], known, model)
    assert alone.seconds.mid == pytest.approx(mid[gpus[0]])  # whichever others are asked


def test_a_larger_batch_takes_longer_and_no_more_than_in_proportion(model: StepModel) -> None:
    known = platforms.shipped()
    times = []
    for batch in (8, 16, 64):
        graph = graph_of(convolutional(blocks=4, channels=64), batch=batch)
        times.append(predict(graph, [GPU], known, model)[0].seconds.mid)
    assert times == sorted(times)


def test_the_shipped_bundle_is_what_its_manifest_says(model: StepModel) -> None:
    manifest = bundle.verify()
    assert manifest.id == model.id
    assert [head.platform for head in manifest.heads] == [GPU, CPU]
    for head in manifest.heads:
        assert head.elsewhere.log_width >= head.here.log_width


@pytest.mark.parametrize("name", ["manifest.json", f"trees-{GPU}.onnx", f"process-{CPU}.onnx"])
def test_a_tampered_bundle_is_refused(tmp_path: Path, name: str) -> None:
    copy = tmp_path / "bundle"
    shutil.copytree(bundle.DEFAULT_STEPS_BUNDLE, copy)
    path = copy / name
    raw = path.read_bytes()
    changed = raw.replace(b'"seed": 0', b'"seed": 7') if name == "manifest.json" else raw + b"x"
    assert changed != raw
    path.write_bytes(changed)
    with pytest.raises(DocumentError):
        bundle.load(copy)


@pytest.fixture
def onnx_file(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(convolutional(blocks=3, channels=16).SerializeToString())
    return path


def run(*arguments: object) -> int:
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def test_the_command_ranks_platforms_by_the_step(
    onnx_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", onnx_file, "--mode", "training", "--batch", 32, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["mode"], document["batch"]) == ("training", 32)
    rows = document["predictions"]
    order = [(one["basis"] == "prior", one["step_s"]["mid"]) for one in rows]
    assert order == sorted(order)
    assert {one["basis"] for one in document["predictions"]} == {"calibrated", "prior", "scaled"}
    for one in document["predictions"]:
        memory = one["gpu_memory_bytes"] or one["host_memory_bytes"]
        assert memory["low"] <= memory["high"]
        assert one["fits"] in ("yes", "no", "may")


def test_the_table_says_what_it_stands_on(
    onnx_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", onnx_file, "--mode", "training", "--batch", 4, "--platform", GPU) == 0
    output = capsys.readouterr().out
    assert "calibrated" in output
    assert f"Learnt on {GPU}" in output


def test_another_bundle_can_be_named_and_a_wrong_one_is_refused(
    onnx_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "bundle"
    shutil.copytree(bundle.DEFAULT_STEPS_BUNDLE, copy)
    asked = ("predict", onnx_file, "--mode", "training", "--batch", 4, "--platform", GPU)
    assert run(*asked, "--json") == run(*asked, "--json", "--bundle", copy) == 0
    decoder = json.JSONDecoder()
    shown = capsys.readouterr().out
    first, end = decoder.raw_decode(shown)
    assert first == json.loads(shown[end:])
    (copy / "manifest.json").unlink()
    assert run(*asked, "--bundle", copy) != 0
    assert "manifest.json" in capsys.readouterr().err


@pytest.mark.parametrize("stray", [["--roofline"], ["--precision", "fp8"], ["--size", "3"]])
def test_options_that_mean_nothing_here_are_refused(
    onnx_file: Path, stray: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", onnx_file, "--mode", "training", "--batch", 4, *stray) == 2
    shown = capsys.readouterr().err
    assert "means nothing for a model graph" in shown or "fp8 is not predicted" in shown


def test_a_mode_is_for_model_graphs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "profile.json"
    path.write_text(to_json(toy_profiles.profile()), encoding="utf-8")
    assert run("predict", path, "--mode", "training") == 2
    assert "--mode means nothing for a program's profile" in capsys.readouterr().err


def test_another_precision_is_moved_by_its_peaks_and_bytes(model: StepModel) -> None:
    graph = graph_of(convolutional(blocks=3, channels=32), batch=8)
    known = platforms.shipped()

    def step(name: str, numbers: Numbers | None) -> StepPrediction:
        (found,) = predict(graph, [name], known, model, numbers=numbers)
        return found

    mixed, half, whole = (step(GPU, one) for one in (None, Numbers.BF16, Numbers.FP32))
    assert half.seconds == mixed.seconds
    assert (half.basis, half.precision, mixed.precision) == (Basis.CALIBRATED, "bf16", "amp")
    assert mixed.seconds.mid < step(GPU, Numbers.TF32).seconds.mid <= whole.seconds.mid
    assert whole.basis is Basis.PRIOR
    assert whole.seconds.high / whole.seconds.mid > mixed.seconds.high / mixed.seconds.mid
    assert step(CPU, Numbers.FP32).seconds == step(CPU, None).seconds


def test_platforms_that_do_not_compute_in_it_are_left_out(model: StepModel) -> None:
    graph, known = graph_of(convolutional(blocks=1), batch=8), platforms.shipped()
    names = ["v100-pcie-32gb", "a100-80gb"]
    found = predict(graph, names, known, model, numbers=Numbers.BF16)
    assert [one.platform for one in found] == ["a100-80gb"]
    assert len(predict(graph, names, known, model, numbers=Numbers.FP32)) == 2


def test_the_command_says_in_what_precision(
    onnx_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("predict", onnx_file, "--mode", "training", "--batch", 4, "--platform", GPU, "--json")
    assert run(*asked) == run(*asked, "--precision", "fp32") == 0
    decoder, shown = json.JSONDecoder(), capsys.readouterr().out
    mixed, end = decoder.raw_decode(shown)
    (one,), (other,) = mixed["predictions"], json.loads(shown[end:])["predictions"]
    assert (one["precision"], other["precision"]) == ("amp", "fp32")
    assert other["step_s"]["mid"] > one["step_s"]["mid"]
    assert other["basis"] == "prior"
    assert other["gpu_memory_bytes"]["mid"] >= one["gpu_memory_bytes"]["mid"]
    assert "other precision" in other["sources"][0]["situation"]
