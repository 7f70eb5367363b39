"""A trained network as ONNX (any kind) or as numpy arrays (GraphSAGE), proved to be equal."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from berth.pilot.errors import BerthError
from berth.predictor.families.graph.latency.graph_network import GraphNetwork
from berth.predictor.families.graph.latency.node_features import CompactGraph
from berth.predictor.families.program.ceilings import Floats
from lab.published.graph_networks.fit import Fitted
from lab.published.graph_networks.layers import Kind
from lab.published.graph_networks.network import Network

INPUTS = ("features", "source", "target", "times", "count", "statics", "columns")
OUTPUT = "logarithms"
TOLERANCE = 1e-4
_OPSET = 18
_OPEN = {
    "features": {0: "rows"}, "source": {0: "edges"}, "target": {0: "edges"}, "times": {0: "edges"},
    "count": {0: "rows"}, "columns": {0: "runs"}, OUTPUT: {0: "runs"},
}  # fmt: skip


class _OneGraph(nn.Module):
    """``Network.one_graph`` with the targets' means added."""

    mean: Tensor

    def __init__(self, network: Network, mean: Floats) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.from_numpy(mean.astype(np.float32)))

    def forward(self, *inputs: Tensor) -> Tensor:
        found: Tensor = self.network.one_graph(*inputs) + self.mean
        return found


def to_onnx(fitted: Fitted) -> bytes:
    """A graph's tensors (``INPUTS``: any number of rows, edges and runs) -> [runs, targets]."""
    network = fitted.network.eval()
    example = (
        torch.zeros(3, len(network.nodes.mean)), torch.tensor([0, 1]), torch.tensor([1, 2]),
        torch.ones(2), torch.ones(3), torch.zeros(1, len(network.statics.mean)),
        torch.zeros(2, len(network.columns.mean)),
    )  # fmt: skip
    stream: Any = io.BytesIO()
    with warnings.catch_warnings():
        # As in training.relative.networks.export: the newer exporter gives no better graph here.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _OneGraph(network, fitted.mean).eval(), example, stream, dynamo=False,
            input_names=list(INPUTS), output_names=[OUTPUT], dynamic_axes=_OPEN,
            opset_version=_OPSET,
        )  # fmt: skip
    return bytes(stream.getvalue())


def onnx_inputs(graph: CompactGraph, statics: Floats, columns: Floats) -> dict[str, NDArray[Any]]:
    """What ``to_onnx``'s model is asked with: ``statics`` [...], ``columns`` [runs, ...]."""
    return {
        "features": graph.features, "source": graph.edges[0].astype(np.int64),
        "target": graph.edges[1].astype(np.int64), "times": graph.times, "count": graph.count,
        "statics": statics.astype(np.float32)[None], "columns": columns.astype(np.float32),
    }  # fmt: skip


def run_onnx(
    session: onnxruntime.InferenceSession, graph: CompactGraph, statics: Floats, columns: Floats
) -> Floats:
    """[runs, targets] logarithms."""
    # An MLP reads no edges: the model then lacks their inputs.
    known = {one.name for one in session.get_inputs()}
    given = onnx_inputs(graph, statics, columns)
    said = session.run(None, {name: given[name] for name in known})
    return np.asarray(said[0], np.float64)


def to_arrays(fitted: Fitted) -> dict[str, NDArray[np.float32]]:
    """The weights by name, for ``GraphNetwork``. Raises BerthError for kinds other than SAGE."""
    kind = fitted.network.shape.encoder.kind
    if kind is not Kind.SAGE:
        raise BerthError(f"numpy serves GraphSAGE, not {kind.value}", hint="use its ONNX model")
    state = {
        name: np.asarray(value.detach().numpy(), np.float32)
        for name, value in fitted.network.state_dict().items()
    }
    return {**state, "mean": fitted.mean.astype(np.float32)}


def check_agreement(
    fitted: Fitted, session: onnxruntime.InferenceSession, graph: CompactGraph, statics: Floats,
    columns: Floats,
) -> float:  # fmt: skip
    """Largest difference of ONNX, and of numpy for GraphSAGE, from PyTorch.

    Raises BerthError above ``TOLERANCE``.
    """
    with torch.no_grad():
        inputs = [torch.from_numpy(x) for x in onnx_inputs(graph, statics, columns).values()]
        own = fitted.network.eval().one_graph(*inputs).numpy() + fitted.mean
    apart = float(np.abs(run_onnx(session, graph, statics, columns) - own).max())
    if fitted.network.shape.encoder.kind is Kind.SAGE:
        plain = GraphNetwork.of(to_arrays(fitted)).logarithms(graph, statics, columns)
        apart = max(apart, float(np.abs(plain - own).max()))
    if not apart <= TOLERANCE:
        raise BerthError(f"the exported network differs from the trained one by {apart:.3g}")
    return apart
