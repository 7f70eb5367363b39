"""A graph in a document is the graph that was read; anything else is refused in one sentence."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest
from small_models import attention, convolutional, graph_of

from berth.pilot.errors import DocumentError
from berth.predictor.graphs.stored import from_lines, to_lines


def test_a_stored_graph_is_the_graph_that_was_read() -> None:
    for made in (graph_of(convolutional(), batch=4), graph_of(attention(), sizes={"sequence": 16})):
        again = from_lines(to_lines(made), "x")
        assert again.digest == made.digest
        assert (again.batch, again.inputs, again.operators) == (
            made.batch,
            made.inputs,
            made.operators,
        )
        assert np.array_equal(again.kinds, made.kinds)
        assert np.array_equal(again.edges, made.edges)
        assert again.total_flops == made.total_flops
        assert to_lines(again) == to_lines(made)


@pytest.mark.parametrize(
    "lines",
    [
        ("",),
        ("not base64!",),
        (base64.b64encode(b"no zlib").decode(),),
        (base64.b64encode(zlib.compress(b"")).decode(),),
        (base64.b64encode(zlib.compress(b"\xff" * 400)).decode(),),
        (base64.b64encode(zlib.compress(b"\0" * 80_000_000)).decode(),),
    ],
)
def test_anything_else_is_one_sentence(lines: tuple[str, ...]) -> None:
    with pytest.raises(DocumentError, match="does not hold a model graph"):
        from_lines(lines, "model-workload")


def test_a_cut_graph_is_refused() -> None:
    (line,) = to_lines(graph_of(convolutional()))
    for cut in (line[:-8], line[: len(line) // 2 // 4 * 4], line[8:]):
        with pytest.raises(DocumentError, match="does not hold a model graph"):
            from_lines((cut,), "model-workload")
