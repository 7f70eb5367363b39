"""The table of graph networks beside trees, on a tiny data set."""

from __future__ import annotations

import json
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

from lab.__main__ import lab
from lab.graphs.model_runs import runs
from lab.ground.table import Places
from lab.latency import own_runs, timm_runs
from lab.latency.timm_runs import MODEL, Runs
from lab.published.graph_networks import evaluate_networks as networks
from lab.published.graph_networks import timm_examples as made
from lab.published.graph_networks.evaluate_networks import Part
from lab.published.graph_networks.fit_network import Training

SHORT = Training(epochs=10)
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
    found = networks.networks_report(
        tiny_latency.runs(), [part], advance=lambda *_: told.append(None)
    )
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


def test_the_command_prints_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = tuple(m for m in networks.plan(SHORT)[0].families if m.name == networks.SUMMED)
    monkeypatch.setattr(networks, "plan", lambda _: (Part(MODEL, 1, few),))
    monkeypatch.setattr(networks, "OWN_TRAINING", SHORT)
    out = tmp_path / "report"
    arguments = ["graph-networks", "--report", str(out)]
    said = CliRunner().invoke(lab, arguments, catch_exceptions=False)
    assert "sage, sum" in said.output
    assert "network, PyTorch" in said.output
    assert json.loads((out / "evaluation.json").read_text())["models"] == 14
