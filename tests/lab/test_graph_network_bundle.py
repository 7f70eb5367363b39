"""A graph network as a bundle, and the table of networks beside trees, on a tiny table."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra `deep`")
pytest.importorskip("onnx")
pytest.importorskip("xgboost")

import tiny_latency
from click.testing import CliRunner
from onnx import ModelProto
from small_models import attention, convolutional, graph_of

from berth.pilot.documents import to_json
from berth.pilot.errors import DocumentError, UsageError
from berth.plugin.cli import berth, main
from berth.predictor.families.graph.kind import Mode, ModelWorkload
from berth.predictor.families.graph.latency.graph_network_bundle import ONNX, RunSetting, load
from berth.predictor.families.graph.latency.network_source import of_one
from berth.predictor.families.graph.latency.node_features import static_features
from berth.predictor.families.graph.source_errors import SourceError, known_device
from berth.predictor.graphs.stored import to_lines
from lab.__main__ import lab
from lab.graphs.model_runs import runs
from lab.ground.table import Places
from lab.latency import own_runs, timm_runs
from lab.latency.timm_runs import MODEL, Runs
from lab.published.graph_networks import evaluate_networks as networks
from lab.published.graph_networks import network_errors
from lab.published.graph_networks import timm_examples as made
from lab.published.graph_networks.evaluate_networks import Part
from lab.published.graph_networks.fit_network import Training
from lab.published.graph_networks.network_bundle import train

SHORT = Training(epochs=10)
ERRORS = tuple(
    SourceError(source=source, situation=known_device(unlike=unlike), log_bias=0.0,
                log_width=width, groups=20, rows=200, coverage=0.9)
    for unlike in (False, True) for source, width in (("graph network", 0.2), ("combined", 1.0))
)  # fmt: skip
OWN = [
    run.model_copy(update={"model": run.model.model_copy(update={"name": f"{one.model}_8"})})
    for one, run in zip(tiny_latency.graphs().architectures, runs(), strict=False)
]
"""Runs of ours, as if they were of the tiny table's models."""


@pytest.fixture(scope="module", autouse=True)
def _tiny() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (timm_runs, own_runs):
            patch.setattr(module, "graphs", tiny_latency.graphs)
        patch.setattr(own_runs, "runs", lambda: OWN)
        patch.setattr(own_runs, "architectures", dict)
        patch.setattr(timm_runs, "runs", tiny_latency.runs)
        made.compacted.cache_clear()
        yield
        made.compacted.cache_clear()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, _tiny: None) -> Path:
    folder = tmp_path_factory.mktemp("bundles") / "net"
    train(folder, tiny_latency.runs(), command="berth train", training=SHORT, errors=ERRORS)
    return folder


def test_a_bundle_predicts_every_setting_of_a_graph(bundle: Path) -> None:
    graph = graph_of(convolutional(2), batch=1)
    asked = [RunSetting("3090", "fp32", 1), RunSetting("5090", "fp32", 8, compiled=True)]
    seconds = load(bundle).seconds(graph, asked)
    assert seconds.shape == (2,)
    assert (seconds > 0).all()
    assert seconds[0] == pytest.approx(load(bundle).seconds(graph, asked[:1])[0])


@pytest.mark.parametrize("model", [convolutional(2), attention()])
def test_a_graph_of_many_images_is_taken_back_to_one(model: ModelProto) -> None:
    alone = graph_of(model, batch=1, sizes={"sequence": 16})
    found = of_one(graph_of(model, batch=32, sizes={"sequence": 16}))
    assert found.batch == 1
    assert np.array_equal(found.kinds, alone.kinds)
    assert np.array_equal(static_features(found), static_features(alone))


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    document = ModelWorkload(
        name="net", mode=Mode.INFERENCE, batch=8, precision="fp32",
        graph=to_lines(graph_of(convolutional(2), batch=8)),
    )  # fmt: skip
    path = tmp_path / "net.json"
    path.write_text(to_json(document))
    return path


def _sources(bundle: Path, workload: Path) -> dict[str, set[str]]:
    words = ["predict", str(workload), "--bundle", str(bundle), "--json"]
    said = CliRunner().invoke(berth, words, catch_exceptions=False)
    lines = json.loads(said.stdout)["predictions"]
    return {one["platform"]: {s["source"] for s in one["sources"]} for one in lines}


def test_a_forecast_takes_it_as_one_source_on_its_devices(bundle: Path, workload: Path) -> None:
    found = _sources(bundle, workload)
    with_it = {name for name, own in found.items() if any("graph network" in one for one in own)}
    assert with_it == {one.platform for one in load(bundle).manifest.places}


def test_without_known_errors_it_has_no_part(workload: Path, tmp_path: Path) -> None:
    train(tmp_path / "b", tiny_latency.runs(), command="berth train", training=SHORT)
    shown = _sources(tmp_path / "b", workload)
    assert not any("graph network" in one for own in shown.values() for one in own)


def test_a_job_is_placed_by_it(bundle: Path, workload: Path) -> None:
    words = ["place", str(workload), "--bundle", str(bundle), "--explain", "--", "true"]
    said = CliRunner().invoke(berth, words, catch_exceptions=False)
    assert "is predicted fastest" in said.output


def test_the_command_shows_and_checks_it(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for asked in ("show", "verify"):
        main(["bundle", asked, str(bundle)])
        assert load(bundle).manifest.id in capsys.readouterr().out


def test_same_rows_and_seed_give_the_same_bundle(bundle: Path, tmp_path: Path) -> None:
    rows = tiny_latency.runs()
    again = train(tmp_path / "again", rows, command="berth train", training=SHORT, errors=ERRORS)
    other = train(tmp_path / "other", rows, command="berth train", training=SHORT, seed=1)
    assert load(bundle).manifest.id == again.id != other.id


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (RunSetting("abacus", "fp32", 1), "abacus"),
        (RunSetting("3090", "fp3", 1), "fp3"),
        (RunSetting("3090", "fp32", 0), "at least 1"),
    ],
)
def test_a_setting_that_is_none_is_refused(bundle: Path, setting: RunSetting, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load(bundle).seconds(graph_of(convolutional(), batch=1), [setting])


def test_a_graph_of_another_batch_is_refused(bundle: Path) -> None:
    with pytest.raises(UsageError, match="batch 4"):
        load(bundle).seconds(graph_of(convolutional(), batch=4), [RunSetting("3090", "fp32", 1)])


def test_a_changed_bundle_is_refused(bundle: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(bundle, tmp_path / "copy")
    raw = bytearray((copy / ONNX).read_bytes())
    raw[len(raw) // 2] ^= 1
    (copy / ONNX).write_bytes(bytes(raw))
    with pytest.raises(DocumentError, match="checksum"):
        load(copy)


def test_the_settings_of_training_and_serving_are_the_same_numbers() -> None:
    rows = tiny_latency.runs()
    for n in (0, 3, len(rows) - 1):
        setting = RunSetting(
            str(rows.device[n]), str(rows.precision[n]), int(rows.batch[n]),
            int(rows.image_size[n]), int(rows.torch[n]), float(rows.cuda[n]),
            bool(rows.compiled[n]), rows.layout[n] == "nhwc",
        )  # fmt: skip
        assert np.allclose(setting.columns(made.COLUMNS), made.columns(rows)[n])


def test_rows_without_a_graph_cannot_be_learnt() -> None:
    rows = tiny_latency.runs()
    rows = replace(rows, graph=np.full(len(rows), timm_runs.NO_GRAPH))
    with pytest.raises(ValueError, match="must have a graph"):
        made.examples(rows)


def test_what_was_not_measured_has_no_label() -> None:
    rows, labels = made.own_labels()
    assert [f"{name}_8" for name in rows.model.tolist()] == [run.model.name for run in OWN]
    assert np.isfinite(labels[:, :2]).all()
    assert np.isnan(labels[:, 2]).all()


@pytest.mark.slow
def test_the_table_has_every_method_of_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "OWN_TRAINING", SHORT)
    part = networks.plan(SHORT)[2]
    told: list[None] = []
    found = networks.evaluate(tiny_latency.runs(), [part], advance=lambda *_: told.append(None))
    results = found.data["results"]
    mixed = [f"mean of {name} and {networks.SUMMED}" for name in (networks.TREES, networks.SERVED)]
    assert [one.family for one in results] == [*(one.name for one in part.families), *mixed]
    assert len(told) == networks.steps([part])
    assert all(0 < one.figures.mean_error < np.inf for one in results)
    assert "unseen model, fold 1 of 5" in found.text()


def _slower(rows: Runs, some: Places) -> Runs:
    seconds = rows.seconds.copy()
    seconds[some] *= 7
    return replace(rows, seconds=seconds)


def test_a_rows_own_label_does_not_reach_its_prediction() -> None:
    rows = tiny_latency.runs()
    test, learnt = np.arange(8), np.arange(8, len(rows))
    for one in networks.plan(SHORT)[0].families:
        first, other = (
            one.predict(some[learnt], some[test], 0) for some in (rows, _slower(rows, test))
        )
        assert np.array_equal(first, other)


def test_the_commands_train_and_evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = tuple(m for m in networks.plan(SHORT)[0].families if m.name == networks.SUMMED)
    monkeypatch.setattr(networks, "plan", lambda _: (Part(MODEL, 1, few),))
    monkeypatch.setattr(networks, "OWN_TRAINING", SHORT)
    out = tmp_path / "report"
    arguments = ["graph-networks", "--report", str(out)]
    said = CliRunner().invoke(lab, arguments, catch_exceptions=False)
    assert "sage, sum" in said.output
    assert "network, ONNX" in said.output
    assert json.loads((out / "graph-networks.json").read_text())["models"] == 14
    monkeypatch.setattr(network_errors, "network_errors", lambda *_, **__: ERRORS)
    said = CliRunner().invoke(
        lab, ["graph-networks", "--train", str(tmp_path / "b")],
        catch_exceptions=False,
    )  # fmt: skip
    assert "56 measurements" in said.output
    assert load(tmp_path / "b").manifest.rows == 56
    assert load(tmp_path / "b").manifest.errors == ERRORS
