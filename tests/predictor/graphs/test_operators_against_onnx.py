"""Each of ONNX's own node test cases: our shapes, types and folded values are those expected."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.reference.ops import op_pool_common

from berth.pilot.protobuf import Problem
from berth.predictor.graphs.infer import Walk
from berth.predictor.graphs.onnx_file import RawModel, read
from berth.predictor.graphs.operators import CATALOGUE

DATA_DEPENDENT = {"Compress", "NonZero", "NonMaxSuppression", "Unique"}
CONTROL_FLOW = {"If", "Loop", "Scan", "SequenceMap"}
LEFT_OUT = {
    # Strings, optional values, images as files: nothing of a network's own work.
    "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer",
    "ImageDecoder", "OptionalGetElement", "OptionalHasElement",
    "FlexAttention",  # a preview
}  # fmt: skip
OPEN = "leaves the unnamed dimension"
"""Cases of empty tensors: 0 stands for an open dimension in files that people export."""
DISAGREE = {
    # Empty results: a dimension of 0 as above.
    "test_triu_zero", "test_reshape_allowzero_reordered", "test_split_zero_size_splits_opset13",
    "test_split_zero_size_splits_opset18",
}  # fmt: skip


def only_shape(padded, x_shape, kernel, strides, out_shape, *rest, **named):
    """Stands in for onnx's slow pooling by loops: its values are of no interest here."""
    return np.zeros((*x_shape[:2], *out_shape), padded.dtype)


@pytest.fixture(scope="module")
def cases() -> list:
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr(op_pool_common, "pool", only_shape)
        found = collect_testcases(op_type=None)
    return [case for case in found if case.model is not None and case.name not in DISAGREE]


def raw(model: ModelProto) -> RawModel:
    handle = os.memfd_create("model")
    try:
        os.write(handle, model.SerializeToString())
        return read(handle)
    finally:
        os.close(handle)


def with_constants(case, *, every: bool) -> ModelProto | None:
    """The case's model with its small integer inputs (or all) as constants."""
    model = ModelProto()
    model.CopyFrom(case.model)
    for opset in model.opset_import:
        if opset.domain == "":
            opset.version = max(opset.version, 13)
    for spec, value in zip(case.model.graph.input, case.data_sets[0][0], strict=False):
        if not isinstance(value, np.ndarray) or value.dtype.kind in "OSU":
            return None
        small = value.dtype.kind in "iub" and value.ndim <= 1 and value.size <= 64
        if every or small or spec.name in ("scales", "start", "limit", "delta"):
            model.graph.initializer.append(numpy_helper.from_array(value, spec.name))
    return model


def walks(cases: list, *, every: bool) -> Iterator[tuple[object, Walk]]:
    for case in cases:
        operators = {node.op_type for node in case.model.graph.node}
        domains = {opset.domain for opset in case.model.opset_import}
        if operators & (LEFT_OUT | CONTROL_FLOW) or domains - {"", "ai.onnx.preview"}:
            continue
        model = with_constants(case, every=every)
        if model is None:
            continue
        try:
            walk = Walk.of(raw(model))
            walk.steps()
        except Problem as problem:
            known = OPEN in problem.problem or operators & DATA_DEPENDENT
            known = known or ("input" in problem.problem and "not a tensor" in problem.problem)
            assert known or operators & {"SplitToSequence"}, (case.name, problem.problem)
            continue
        yield case, walk


@pytest.mark.parametrize("every", [False, True], ids=["activations", "constants"])
def test_shapes_types_and_values_are_those_of_the_reference(cases: list, every: bool) -> None:
    compared: Counter[str] = Counter()
    for case, walk in walks(cases, every=every):
        assert not walk.found.unknown, (case.name, walk.found.unknown)
        for spec, expected in zip(case.model.graph.output, case.data_sets[0][1], strict=False):
            if not isinstance(expected, np.ndarray):
                continue
            tensor = walk.env[spec.name.encode()]
            assert tensor.shape == expected.shape, (case.name, spec.name)
            declared = spec.type.tensor_type.elem_type
            assert tensor.dtype in (declared, helper.np_dtype_to_tensor_dtype(expected.dtype))
            compared["shapes"] += 1
            if tensor.values is not None:
                close = np.allclose(tensor.values, expected.astype(float).ravel(), rtol=1e-3)
                assert close, (case.name, spec.name)
                compared["values"] += 1
    assert compared["shapes"] > 1500
    assert not every or compared["values"] > 250


def test_every_operator_of_onnx_is_in_the_catalogue_or_left_out_by_name() -> None:
    import onnx.defs

    missing = {
        schema.name
        for schema in onnx.defs.get_all_schemas()
        if schema.domain == "" and not schema.deprecated and schema.name not in CATALOGUE
    }
    sequences = {name for name in missing if "Sequence" in name or "Optional" in name}
    assert missing - sequences <= LEFT_OUT | CONTROL_FLOW | {"MelWeightMatrix", "Optional"}
