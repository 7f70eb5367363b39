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
from lab.ground.table import Places
from lab.latency import timm_runs
from lab.latency.timm_runs import MODEL, Runs
from lab.published.graph_networks import evaluate_networks as networks
from lab.published.graph_networks import timm_examples as made
from lab.published.graph_networks.evaluate_networks import Part
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
def test_the_table_has_every_method_of_its_plan() -> None:
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
    assert "random rows, fold 1 of 5" in found.text()


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
    out = tmp_path / "report"
    arguments = ["graph-networks", "--report", str(out)]
    said = CliRunner().invoke(lab, arguments, catch_exceptions=False)
    assert "sage, sum" in said.output
    assert json.loads((out / "evaluation.json").read_text())["models"] == 14
