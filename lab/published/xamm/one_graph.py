"""The parts of xAMM as ONNX, and all of them as one graph that is served like any other family."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import compose

from berth.predictor.core.arrays import Floats
from lab.ground.onnx_export import OnnxGraph, agreement
from lab.ground.trees_as_onnx import trees_to_onnx
from lab.published.networks import TOLERANCE, check_agreement, to_onnx


def network_onnx(network: Any, rows: Floats) -> bytes:
    """Return a network, proved on ``rows``. Raises BerthError."""
    made = to_onnx(network, rows.shape[1])
    check_agreement(made, network, rows)
    return made


def trees_onnx(model: Any, rows: Floats) -> bytes:
    """Return XGBoost's trees, checked on ``rows``. Raises BerthError where they differ."""
    raw = trees_to_onnx(model, rows.shape[1])
    # Trees compare in float32: the rows as they are served.
    probe = rows.astype(np.float32)
    agreement(raw, {"features": probe}, model.predict(probe.astype(np.float64)), TOLERANCE)
    return raw


def one_graph(embedding: bytes, blind: bytes, trees: bytes | None, beside: Floats) -> bytes:
    """``features`` -> ``log_speedup`` [rows, platforms].

    ``beside``: what the trees see of source and target for each platform; NaN: it has no AMM, and
    is answered by the ``blind`` trees, as all are without ``trees``.
    """
    shapes = [one.type.tensor_type.shape.dim for one in _ends(embedding)]
    features, width = (int(shape[1].dim_value) for shape in shapes)
    count = len(beside)
    graph = OnnxGraph("x")
    place = inlined(graph, embedding, "features")
    found = inlined(graph, blind, place)
    if trees is not None:
        known = np.asarray(np.isfinite(beside).all(axis=1))
        machines = np.where(known[:, None], beside, 0.0).astype(np.float32)
        # [rows, 1, inputs] + [platforms, inputs]: each row beside the machines of each target.
        wide = graph.add(
            "MatMul", place, np.eye(width, width + machines.shape[1], dtype=np.float32)
        )
        padded = np.hstack([np.zeros((count, width), np.float32), machines])
        each = graph.add("Add", graph.add("Unsqueeze", wide, np.array([1])), padded)
        inputs = graph.add("Reshape", each, np.array([-1, padded.shape[1]]))
        by_target = graph.add("Reshape", inlined(graph, trees, inputs), np.array([-1, count]))
        found = graph.add("Where", known[None, :], by_target, found)
    every = graph.add("Add", found, np.zeros((1, count), np.float32))
    graph.cast(every, "float64", to="log_speedup")
    return graph.model("xamm", {"features": (features, "float32")}, ("log_speedup", count))


def inlined(graph: OnnxGraph, raw: bytes, feed: str) -> str:
    """Add all nodes of the one-input ONNX file ``raw``, fed by ``feed``; return its first output's
    name.
    """
    prefix = f"{graph.stem}{len(graph.nodes)}-"
    part = compose.add_prefix(onnx.load_model_from_string(raw), prefix)
    graph.add("Identity", feed, to=part.graph.input[0].name)
    graph.nodes.extend(part.graph.node)
    graph.constants.extend(part.graph.initializer)
    graph.domains |= {
        operator_set.domain: operator_set.version
        for operator_set in part.opset_import
        if operator_set.domain
    }
    return str(part.graph.output[0].name)


def _ends(raw: bytes) -> tuple[Any, Any]:
    graph = onnx.load_model_from_string(raw).graph
    return graph.input[0], graph.output[0]
