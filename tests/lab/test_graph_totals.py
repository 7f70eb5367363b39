"""Totals beside published ones: the nearest counts, rounding is allowed for, reasons are named."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from onnx import helper
from small_models import constant, convolutional, graph_of, model

from lab.__main__ import lab
from lab.datasets.timm import Architecture, Published
from lab.graphs import totals
from lab.graphs.totals import Totals, evaluate_totals, published_way

SMALL = Architecture("small", 8)


def row(published: Published, graph=None) -> totals.Row:
    graph = graph or graph_of(convolutional(channels=512), 1)
    return evaluate_totals([(SMALL, graph)], {SMALL: published}).rows[0]


def test_the_nearest_published_value_is_compared() -> None:
    graph = graph_of(convolutional(channels=512), 1)
    gmacs, millions = graph.total_macs / 1e9, graph.parameters / 1e6
    found = row(Published((millions * 2, millions * 1.001), (gmacs * 3, gmacs * 1.1)))
    assert found.parameters_off == pytest.approx(0.001, rel=0.01)
    assert found.macs_off == pytest.approx(1 - 1 / 1.1)


def test_half_of_the_last_digit_is_no_difference() -> None:
    found = evaluate_totals(
        [(SMALL, graph_of(convolutional(), 1))], {SMALL: Published((0.0,), (0.0,))}
    )
    assert found.rows[0].macs_off == 0
    assert found.macs_right == 1


def test_the_published_way_adds_normalisations_and_global_pooling() -> None:
    graph = graph_of(convolutional(blocks=2, channels=8), 1)
    pixels = 8 * 8 * 8
    assert published_way(graph) == graph.total_macs + 2 * 2 * pixels + pixels
    folded = model([helper.make_node("Conv", ["x", "w"], ["getitem"])], [constant("w", 8, 3, 1, 1)])
    graph = graph_of(folded, 1)
    assert published_way(graph) == graph.total_macs + 2 * pixels


def test_architectures_that_nobody_published_are_left_out() -> None:
    assert evaluate_totals([(SMALL, graph_of(convolutional(), 1))], {}).rows == ()


def test_the_command_prints_shares_and_what_is_beyond(monkeypatch, tmp_path) -> None:
    found = Totals((row(Published((1.0,), (1.0,))),), "somewhere")
    monkeypatch.setattr(totals, "evaluate_totals", lambda: found)
    arguments = ["graph-totals", "--report", str(tmp_path)]
    text = CliRunner().invoke(lab, arguments).output
    assert "parameters within 0.5 % of the published: 0.0%" in text
    page = json.loads((tmp_path / "evaluation.json").read_text())
    assert (page["graphs"], page["macs_within_2_percent"]) == (1, 0.0)
