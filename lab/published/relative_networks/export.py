"""From a trained network to ONNX, and the proof that both predict the same.

Both compute in float64, whatever the network was trained in. Gates and attention masks can be so
steep that the order of a float32 sum moves an embedding by 1e-3: PyTorch and ONNX would then give
two answers of one network, and neither would be what was learnt.
"""

from __future__ import annotations

import copy
import io
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from berth.predictor.core.arrays import Floats
from berth.predictor.learning.onnx_export import agreement
from lab.published.relative_networks.layers import tensor

TOLERANCE = 1e-4
OPSET = 15
"""That of converted trees, too: graphs of one version can be put together."""


class _Exact(nn.Module):
    """A copy of a network that takes and gives float32 and computes in float64."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).double()

    def forward(self, rows: Tensor) -> Tensor:
        made: Tensor = self.network(rows.double())
        return made.float()


def to_onnx(network: nn.Module, features: int, output: str = "out") -> bytes:
    """``network`` with one input ``features`` (rows x features) and one ``output``, float32."""
    stream: Any = io.BytesIO()  # what its annotation forbids it takes, and writes
    with warnings.catch_warnings():
        # The newer exporter needs another library and gives no other graph for these networks.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Exact(network).eval(),
            (torch.zeros(2, features),),
            stream,
            dynamo=False,
            opset_version=OPSET,
            input_names=["features"],
            output_names=[output],
            dynamic_axes={"features": {0: "rows"}, output: {0: "rows"}},
        )
    return bytes(stream.getvalue())


def apply(network: nn.Module, rows: Floats) -> Floats:
    """The network's own output in evaluation mode, computed in float64."""
    exact = _Exact(network).eval()
    with torch.no_grad():
        return np.asarray(exact(tensor(rows)).numpy(), dtype=np.float64)


def check_agreement(onnx: bytes, network: nn.Module, rows: Floats) -> float:
    """Largest difference on ``rows``. Raises BerthError above ``TOLERANCE``."""
    fed = {"features": rows.astype(np.float32)}
    return agreement(onnx, fed, apply(network, rows), TOLERANCE)
