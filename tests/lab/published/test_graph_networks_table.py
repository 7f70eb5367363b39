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
from lab.ground.evaluate import Family
from lab.ground.table import Places
from lab.latency import timm_runs
from lab.latency.timm_runs import MODEL, Runs
from lab.published.graph_networks import evaluate_networks as networks
from lab.published.graph_networks import timm_examples as made
from lab.published.graph_networks.fit_network import Training

SHORT = Training(epochs=10)


@pytest.fixture(scope="module", autouse=True)
def _tiny() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timm_runs, "graphs", tiny_latency.graphs)
        patch.setattr(timm_runs, "runs", tiny_latency.runs)
        made.compacted.cache_clear()
        yield
        made.compacted.cache_clear()


def test_rows_without_a_graph_cannot_be_learnt() -> None:
    rows = tiny_latency.runs()
    rows = replace(rows, graph=np.full(len(rows), timm_runs.NO_GRAPH))
    with pytest.raises(ValueError, match="must have a graph"):
        made.examples(rows)


@pytest.mark.slow
def test_the_table_has_every_method() -> None:
    found = networks.networks_report(
        tiny_latency.runs(), networks.methods(SHORT), splits=[networks.MODEL]
    )
    results = found.data["results"]
    assert [one.family for one in results] == [networks.NETWORK, networks.SERVED]
    assert all(0 < one.figures.mean_error < np.inf for one in results)


def _slower(rows: Runs, some: Places) -> Runs:
    seconds = rows.seconds.copy()
    seconds[some] *= 7
    return replace(rows, seconds=seconds)


def test_a_rows_own_label_does_not_reach_its_prediction() -> None:
    rows = tiny_latency.runs()
    test, learnt = np.arange(8), np.arange(8, len(rows))
    for one in networks.methods(SHORT):
        first, other = (
            one.predict(some[learnt], some[test], 0) for some in (rows, _slower(rows, test))
        )
        assert np.array_equal(first, other)


def test_the_command_prints_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "methods", lambda: (Family(networks.SERVED, networks.by_served),))
    monkeypatch.setattr(networks, "SPLITS", (MODEL,))
    out = tmp_path / "report"
    arguments = ["graph-networks", "--report", str(out)]
    said = CliRunner().invoke(lab, arguments, catch_exceptions=False)
    assert networks.SERVED in said.output
    assert json.loads((out / "evaluation.json").read_text())["models"] == 14
