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
from small_models import convolutional, graph_of

from berth.pilot.errors import DocumentError, UsageError
from berth.plugin.cli import main
from berth.predictor.families.graph.latency.graph_network_bundle import WEIGHTS, RunSetting, load
from lab.__main__ import lab
from lab.graphs.model_runs import runs
from lab.ground.table import Places
from lab.latency import timm_runs as data
from lab.latency.timm_runs import MODEL
from lab.published.graph_networks import evaluate as networks
from lab.published.graph_networks import examples as made
from lab.published.graph_networks import measured as network_own
from lab.published.graph_networks import memory as network_memory
from lab.published.graph_networks import priors
from lab.published.graph_networks.fit import Training
from lab.published.graph_networks.train import train

SHORT = Training(epochs=10)
OWN = [
    run.model_copy(update={"model": run.model.model_copy(update={"name": f"{one.model}_8"})})
    for one, run in zip(tiny_latency.graphs().architectures, runs(), strict=False)
]
"""Runs of ours, as if they were of the tiny table's models."""


@pytest.fixture(scope="module", autouse=True)
def _tiny() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (made, priors, network_own, data):
            patch.setattr(module, "graphs", tiny_latency.graphs)
        patch.setattr(network_own, "runs", lambda: OWN)
        patch.setattr(data, "runs", tiny_latency.runs)
        _forget()
        yield
        _forget()


def _forget() -> None:
    made.compacted.cache_clear()
    priors.remembered.cache_clear()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, _tiny: None) -> Path:
    folder = tmp_path_factory.mktemp("bundles") / "net"
    train(folder, tiny_latency.runs(), command="berth train", training=SHORT)
    return folder


def test_a_bundle_predicts_every_setting_of_a_graph(bundle: Path) -> None:
    graph = graph_of(convolutional(2), batch=1)
    asked = [RunSetting("3090", "fp32", 1), RunSetting("5090", "fp32", 8, compiled=True)]
    seconds = load(bundle).seconds(graph, asked)
    assert seconds.shape == (2,)
    assert (seconds > 0).all()
    assert seconds[0] == pytest.approx(load(bundle).seconds(graph, asked[:1])[0])


def test_the_command_shows_and_checks_it(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for asked in ("show", "verify"):
        main(["bundle", asked, str(bundle)])
        assert load(bundle).manifest.id in capsys.readouterr().out


def test_same_rows_and_seed_give_the_same_bundle(bundle: Path, tmp_path: Path) -> None:
    rows = tiny_latency.runs()
    again = train(tmp_path / "again", rows, command="berth train", training=SHORT)
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
    raw = bytearray((copy / WEIGHTS).read_bytes())
    raw[len(raw) // 2] ^= 1
    (copy / WEIGHTS).write_bytes(bytes(raw))
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
    rows = replace(rows, graph=np.full(len(rows), data.NO_GRAPH))
    with pytest.raises(ValueError, match="must have a graph"):
        made.examples(rows)


def test_what_was_not_measured_has_no_label() -> None:
    examples, names = network_own.measured(network_own.inference_runs())
    assert names.tolist() == [run.model.name for run in OWN]
    assert np.isfinite(examples.labels[:, :2]).all()
    assert np.isnan(examples.labels[:, 2]).all()


def test_the_table_has_every_method_of_its_plan() -> None:
    part = networks.Part(MODEL, 1, networks.plan()[2].methods)
    told: list[None] = []
    found = networks.evaluate(
        tiny_latency.runs(), training=SHORT, parts=[part], advance=lambda: told.append(None)
    )
    names = [result.method for result in found.results]
    mixed = [f"mean of {name} and {networks.SUMMED}" for name in (networks.TREES, networks.SERVED)]
    assert names == [*(method.name for method in part.methods), *mixed]
    assert len(told) == networks.steps(SHORT, [part])
    assert all(0 < result.figures.mean_error < np.inf for result in found.results)
    assert all(len(result.cells()) == len(networks.HEADER) for result in found.results)


def _slower(rows: data.Runs, some: Places) -> data.Runs:
    seconds = rows.seconds.copy()
    seconds[some] *= 7
    return replace(rows, seconds=seconds)


def test_a_rows_own_label_does_not_reach_its_prediction() -> None:
    rows = tiny_latency.runs()
    part = networks.plan()[0]
    test = np.arange(8)
    learnt = np.arange(8, len(rows))
    for method in part.methods:
        one, other = (
            networks.predict(method, some, learnt, test, 0, SHORT, lambda: None)
            for some in (rows, _slower(rows, test))
        )
        assert np.array_equal(one, other)


def test_the_commands_train_and_evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = tuple(m for m in networks.plan()[0].methods if m.name == networks.SUMMED)
    monkeypatch.setattr(networks, "plan", lambda: (networks.Part(MODEL, 1, few),))
    monkeypatch.setattr(networks, "TRAINING", SHORT)
    monkeypatch.setattr(network_memory, "TRAINING", SHORT)
    out = tmp_path / "report"
    arguments = ["graph-networks", "--report", str(out)]
    said = CliRunner().invoke(lab, arguments, catch_exceptions=False)
    assert "sage, sum" in said.output
    assert "network, numpy" in said.output
    assert json.loads((out / "graph-networks.json").read_text())["models"] == 14
    said = CliRunner().invoke(
        lab, ["graph-networks", "--train", str(tmp_path / "b")],
        catch_exceptions=False,
    )  # fmt: skip
    assert "56 measurements" in said.output
    assert load(tmp_path / "b").manifest.rows == 56
