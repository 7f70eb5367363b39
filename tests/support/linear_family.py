"""The least network of relative performance: log speedups linear in the features, as ONNX."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from lab.relative.families import log_features
from lab.relative.measurements import site_input
from lab.relative.train import train_bundle

RIDGE = 1e-3


def linear_onnx(weights: Floats) -> bytes:
    """log_speedup = [features, 1] x weights, without the last row as its offset."""
    inputs, outputs = len(weights) - 1, weights.shape[1]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["features", "weights"], ["scaled"]),
            helper.make_node("Add", ["scaled", "offset"], ["log_speedup"]),
        ],
        "linear",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [None, inputs])],
        [helper.make_tensor_value_info("log_speedup", TensorProto.FLOAT, [None, outputs])],
        [
            numpy_helper.from_array(weights[:-1].astype(np.float32), "weights"),
            numpy_helper.from_array(weights[-1].astype(np.float32), "offset"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    checker.check_model(model)
    return bytes(model.SerializeToString())


@dataclass(frozen=True)
class FittedLinear:
    weights: Floats
    """[counters + 2, platforms]"""

    def log_seconds(self, rows: Rows) -> Floats:
        features = np.column_stack([log_features(rows), np.ones(len(rows))])
        guess = rows.log_reference[:, None] - features @ self.weights
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, guess)

    def onnx(self, rows: Rows) -> bytes:
        return linear_onnx(self.weights)


@dataclass(frozen=True)
class LinearFamily:
    name: str = "linear"
    what: str = "least squares"
    libraries: tuple[str, ...] = ("numpy",)

    def fit(self, rows: Rows, seed: int) -> FittedLinear:
        features = np.column_stack([log_features(rows), np.ones(len(rows))])
        square = features.T @ features + RIDGE * np.eye(features.shape[1])
        return FittedLinear(np.linalg.solve(square, features.T @ rows.log_speedup))


def bundle_of(site: Path, folder: Path) -> str:
    """Train a bundle of the profiles in ``site``; return what the trainer says."""
    read = site_input((site,), None, None)
    assert read is not None
    return train_bundle(read, folder, 0, LinearFamily())
