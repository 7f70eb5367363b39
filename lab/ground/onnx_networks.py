"""A trained PyTorch network as ONNX."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

_OPSET = 18


def network_onnx(
    network: nn.Module,
    example: Sequence[Tensor],
    open_axes: Mapping[str, Mapping[int, str]],
    output: str,
) -> bytes:
    """``network`` in evaluation mode. ``open_axes``: each input in order, and the output, with the
    axes that may have any size."""
    stream: Any = io.BytesIO()  # what its annotation forbids it takes, and writes
    with warnings.catch_warnings():
        # The newer exporter takes 20 s for the same graph.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network.eval(), tuple(example), stream, dynamo=False, opset_version=_OPSET,
            input_names=[name for name in open_axes if name != output], output_names=[output],
            dynamic_axes={name: dict(axes) for name, axes in open_axes.items() if axes},
        )  # fmt: skip
    return bytes(stream.getvalue())
