"""Real exports: our shapes beside onnx's own inference, totals beside the published ones.

Needs the public data sets; skipped where they are absent.
"""

from __future__ import annotations

import os
from itertools import islice

import pytest
from onnx import ModelProto, shape_inference

from berth.pilot.errors import BerthError
from berth.predictor.graphs.infer import Walk
from berth.predictor.graphs.onnx_file import read
from lab.datasets.timm import graphs, published, skeletons

EVERY = 40
"""One graph of so many."""


@pytest.fixture(scope="module")
def some() -> list:
    try:
        return list(islice(skeletons(), 0, None, EVERY))
    except BerthError as error:
        pytest.skip(error.message)


def test_shapes_are_those_that_onnx_infers_at_the_batch(some: list) -> None:
    compared = 0
    for architecture, data in some:
        handle = os.memfd_create("model")
        os.write(handle, data)
        walk = Walk.of(read(handle), batch=3)
        os.close(handle)
        walk.steps()
        model = ModelProto.FromString(data)
        del model.graph.value_info[:]
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3
        inferred = shape_inference.infer_shapes(model, data_prop=True)
        for value in inferred.graph.value_info:
            dims = value.type.tensor_type.shape.dim
            if all(dim.HasField("dim_value") for dim in dims):
                tensor = walk.env[value.name.encode()]
                assert tensor.shape == tuple(d.dim_value for d in dims), (architecture, value.name)
                assert tensor.dtype == value.type.tensor_type.elem_type
                compared += 1
    assert compared > 2000


def nearest_off(value: float, given: tuple[float, ...]) -> float:
    """Return the relative difference to the nearest published value, 0 within its rounding."""
    other = min(given, key=lambda each: abs(value - each))
    return 0.0 if abs(value - other) <= 0.005 else abs(value / other - 1)


@pytest.mark.slow
def test_totals_are_the_published_ones_and_no_operator_is_unknown(some: list) -> None:
    known = published()
    parameters, macs = [], []
    for architecture, graph in graphs():
        assert not graph.unknown, architecture
        entry = known.get(architecture)
        if entry is not None and entry.gmacs and entry.parameters_millions:
            parameters.append(nearest_off(graph.parameters / 1e6, entry.parameters_millions))
            macs.append(nearest_off(graph.total_macs / 1e9, entry.gmacs))
    assert len(macs) == 451
    assert sum(off <= 0.005 for off in parameters) >= 0.98 * len(parameters)
    # The publisher counts normalisations and global pooling besides: 96 % agree when they are.
    assert sum(off <= 0.02 for off in macs) >= 0.82 * len(macs)
