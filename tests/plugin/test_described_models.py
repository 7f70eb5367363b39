"""Transformers by their size alone: counted as they should be, refused where they cannot be."""

from __future__ import annotations

import pytest

from berth.pilot.errors import BerthError
from berth.plugin.workloads.described_models import PURPOSES, DecoderShape, described
from berth.plugin.workloads.files import WorkloadOptions
from berth.predictor.families.graph.model import graph_of
from berth.predictor.families.language_model.config import from_mapping


@pytest.mark.parametrize("billions", [0.125, 1.0, 8.0, 70.0, 400.0])
def test_a_size_gives_a_shape_of_that_size(billions: float) -> None:
    shape = DecoderShape.of(billions, None, None)
    assert shape.parameters / 1e9 == pytest.approx(billions, rel=0.15)
    assert DecoderShape.of(billions, shape.layers, None).layers == shape.layers


def test_the_graph_counts_what_the_formula_says() -> None:
    shape = DecoderShape(layers=3, width=256)
    work = described(shape, "training", sequence=64, options=WorkloadOptions(batch=2))
    graph = graph_of(work.document)  # type: ignore[arg-type]
    assert graph.unknown == {}
    assert graph.parameters == pytest.approx(shape.parameters, rel=0.01)
    # Every weight but the embedding is multiplied with each of 2 x 64 tokens; plus attention.
    dense = (shape.parameters - 32_000 * 256) * 2 * 64
    attention = 3 * 2 * 2 * 64 * 64 * 256
    assert graph.total_macs == pytest.approx(dense + attention, rel=0.01)
    assert graph.batch == 2


def test_a_served_model_has_that_many_parameters() -> None:
    shape = DecoderShape.of(8.0, None, None)
    work = described(shape, "serve", sequence=512, options=WorkloadOptions(output_tokens=32))
    document = work.document
    assert (document.input_tokens, document.output_tokens) == (512, 32)  # type: ignore[attr-defined]
    found = from_mapping(document.config, source="x", name="x")  # type: ignore[attr-defined]
    assert found.parameters == pytest.approx(shape.parameters, rel=0.02)


@pytest.mark.parametrize(
    ("billions", "layers", "width"), [(None, None, None), (None, 3, None), (1e6, None, None),
                                     (None, 1000, 64), (None, 1, 10**6)]
)  # fmt: skip
def test_a_size_that_cannot_be_is_refused(
    billions: float | None, layers: int | None, width: int | None
) -> None:
    with pytest.raises(BerthError):
        DecoderShape.of(billions, layers, width)


def test_options_that_mean_nothing_are_refused() -> None:
    shape = DecoderShape(layers=1, width=64)
    with pytest.raises(BerthError, match="none of"):
        described(shape, "dance", sequence=None, options=WorkloadOptions())
    with pytest.raises(BerthError, match="at most"):
        described(shape, PURPOSES[1], sequence=10**7, options=WorkloadOptions())
    with pytest.raises(BerthError):
        described(shape, "training", sequence=None, options=WorkloadOptions(precision="fp8"))
