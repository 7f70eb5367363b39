"""Export of the cost model as ONNX, for programs without Berth: ``berth train bundle onnx``.

Inputs (float64): ``features`` (rows x features) and ``terms`` (rows x terms), as the bundle's view
computes them from the counters (``predictor/families/relative/views.py``); ``log_reference`` (rows
x 1); and ``common`` (rows x training rows): 1 where the training row is of the same application, 2
where it is of the same kernel too. Output: ``log_seconds`` (rows x platforms). Berth itself loads
the JSON file, which is as exact, about as fast and readable.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from berth.pilot.errors import DocumentError, UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.bundle import load
from berth.predictor.families.relative.cost_model import CostModel, Gaussian, Group
from berth.predictor.families.relative.rows import Rows
from berth.predictor.families.relative.views import LAUNCH, Seen
from berth.predictor.learning.onnx_export import OnnxGraph, agreement

TOLERANCE = 1e-6
"""Largest allowed difference of log time between the ONNX graph and the model."""


def cost_model_onnx(model: CostModel) -> bytes:
    """Return the cost model as bytes of an ONNX file."""
    graph = OnnxGraph("n")
    apart = graph.add("Unsqueeze", "terms", np.array([1], dtype=np.int64))
    each = graph.add("Add", apart, model.costs.log_cost)
    costs = graph.add("ReduceLogSumExp", each, axes=[2], keepdims=0)
    costs = graph.add("Add", costs, _mean(graph, model.residual))
    trend = graph.add("Sub", "log_reference", _mean(graph, model.trend))
    moved = graph.add("Mul", graph.add("Sub", trend, costs), model.trend_share)
    graph.add("Add", costs, moved, to="log_seconds")
    shapes = {
        "features": model.residual.centre.size,
        "terms": len(model.costs.terms),
        "log_reference": 1,
        "common": len(model.residual.points),
    }
    return graph.model(
        "cost_model",
        {name: (width, "float64") for name, width in shapes.items()},
        ("log_seconds", len(model.platforms)),
        {"platforms": ",".join(model.platforms), "terms": ",".join(model.costs.terms)},
    )


def inputs_of(model: CostModel, rows: Rows) -> dict[str, Floats]:
    """Return the input arrays of the ONNX graph for ``rows``, by name.

    Raises UsageError where the rows do not fit the model.
    """
    seen = model.seen(rows)
    groups = list(zip(rows.applications, rows.kernels, strict=True))
    return {
        "features": seen.features,
        "terms": np.column_stack([seen.terms[name] for name in model.costs.terms]),
        "log_reference": rows.log_reference[:, None],
        "common": common(model, groups),
    }


def check_graph(raw: bytes, model: CostModel) -> float:
    """Return the largest difference of log seconds between the ONNX graph and the model.

    They are compared at the features of the training rows and half way between pairs of them.
    Raises BerthError above ``TOLERANCE``.
    """
    known = model.residual
    rng = np.random.default_rng(0)
    count = len(known.points)
    features = known.points * known.scale + known.centre
    features = np.vstack([features, (features + features[rng.permutation(count)]) / 2])
    terms = rng.normal(10, 5, (2 * count, len(model.costs.terms)))
    terms[:, [i for i, t in enumerate(model.costs.terms) if t == LAUNCH]] = 0.0
    groups = [*known.groups, *[("an application", "that is not known")] * count]
    time = rng.normal(0, 3, (2 * count, 1))
    seen = Seen(dict(zip(model.costs.terms, terms.T, strict=True)), features)
    inputs = {
        "features": features,
        "terms": terms,
        "log_reference": time,
        "common": common(model, groups),
    }
    return agreement(raw, inputs, model.guess(seen, time[:, 0], groups), TOLERANCE)


def common(model: CostModel, groups: Sequence[Group]) -> Floats:
    """Return [rows, training rows]: 1 where the application is the same, 2 where the kernel is too,
    else 0."""
    known = model.residual.groups
    return np.array([[float(g[0] == k[0]) + float(g == k) for k in known] for g in groups])


def _mean(graph: OnnxGraph, gaussian: Gaussian) -> str:
    """Add the nodes that compute ``Gaussian.mean``, and return the output's name."""
    off = graph.add("Div", graph.add("Sub", "features", gaussian.centre), gaussian.scale)
    places = graph.add("Where", graph.add("IsNaN", off), np.zeros(1), off)
    own = graph.add("ReduceSum", graph.add("Mul", places, places), np.array([1], dtype=np.int64))
    cross = graph.add("MatMul", places, -2.0 * gaussian.points.T)
    squared = graph.add("Add", graph.add("Add", own, cross), (gaussian.points**2).sum(axis=1))
    distance = graph.add("Sqrt", graph.add("Max", squared, np.zeros(1)))
    mean = graph.add("Add", graph.add("MatMul", places, gaussian.linear), gaussian.constant)
    mean = graph.add("Add", mean, graph.add("MatMul", "common", gaussian.own))
    for length, near, own_near in zip(
        gaussian.lengths, gaussian.near, gaussian.own_near, strict=True
    ):
        far = graph.add("Mul", distance, np.array([3.0**0.5 / length]))
        falling = graph.add("Exp", graph.add("Neg", far))
        nearness = graph.add("Mul", graph.add("Add", far, np.ones(1)), falling)
        mean = graph.add("Add", mean, graph.add("MatMul", nearness, near))
        shared = graph.add("Mul", nearness, "common")
        mean = graph.add("Add", mean, graph.add("MatMul", shared, own_near))
    return graph.add("Add", graph.add("Mul", mean, gaussian.amplitude), gaussian.offset)


def export_cost_model(folder: Path, out: Path) -> float:
    """Write the bundle's cost model as ONNX to ``out``; return the largest difference to it, in log
    time.

    Raises UsageError where the bundle is of another family, DocumentError where it is damaged or
    ``out`` cannot be written, BerthError where graph and bundle disagree.
    """
    model = load(folder).model
    if not isinstance(model, CostModel):
        raise UsageError(f"{folder} is an ONNX model already", hint="copy its model.onnx")
    raw = cost_model_onnx(model)
    apart = check_graph(raw, model)
    try:
        out.write_bytes(raw)
    except OSError as error:
        raise DocumentError(out, f"cannot be written: {error.strerror}") from None
    return apart
