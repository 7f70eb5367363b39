"""What the published networks share: layers, seeds, and the way to ONNX.

Exported networks compute in float64, whatever they were trained in. Gates and attention masks can
be so steep that the order of a float32 sum moves an embedding by 1e-3: PyTorch and ONNX would then
give two answers of one network, and neither would be what was learnt.
"""

from __future__ import annotations

import copy
import io
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from berth.predictor.core.arrays import Floats
from lab.ground.onnx_export import agreement


class Standardise(nn.Module):
    """(x - mean) / deviation of the training rows, kept within the range that these had.

    A missing value becomes the mean. A network is a straight line outside the rows it has seen:
    without the range, a counter that training rows hardly vary sends an unseen application's
    prediction to infinity.
    """

    mean: Tensor
    scale: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, rows: Floats) -> None:
        super().__init__()
        known = np.where(np.isfinite(rows), rows, np.nan)
        filled = np.where(np.isnan(known).all(axis=0), 0.0, known)
        mean, deviation = np.nanmean(filled, axis=0), np.nanstd(filled, axis=0)
        constant = deviation <= 1e-9 * (1 + np.abs(mean))
        self.register_buffer("mean", tensor(mean))
        self.register_buffer("scale", tensor(np.where(constant, 0.0, 1 / (deviation + constant))))
        self.register_buffer("low", tensor(np.nanmin(filled, axis=0)))
        self.register_buffer("high", tensor(np.nanmax(filled, axis=0)))

    def forward(self, rows: Tensor) -> Tensor:
        present = torch.where(torch.isnan(rows), self.mean.expand_as(rows), rows)
        within = torch.minimum(torch.maximum(present, self.low), self.high)
        return (within - self.mean) * self.scale

    def undo(self, scaled: Tensor) -> Tensor:
        """Back in the rows' own units; a constant column is its mean."""
        inverse = torch.where(self.scale > 0, 1 / self.scale, torch.zeros_like(self.scale))
        return scaled * inverse + self.mean


def tensor(rows: Floats) -> Tensor:
    """Return the values as float32."""
    return torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32))


def perceptron(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers of these widths with a ReLU between each two."""
    layers: list[nn.Module] = []
    for wide, narrow in pairwise(widths):
        layers += [nn.Linear(wide, narrow), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def masked_error(guess: Tensor, labels: Tensor) -> Tensor:
    """Return mean squared error over the labels that are known (not NaN); 0 where none is."""
    known = torch.isfinite(labels)
    apart = torch.where(known, guess - torch.nan_to_num(labels), torch.zeros_like(guess))
    return (apart**2).sum() / known.sum().clamp(min=1)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run torch on one thread from ``seed``; the caller's generator and threads come back."""
    threads, state, drawn = torch.get_num_threads(), torch.get_rng_state(), random.getstate()
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    random.seed(seed)  # torch-geometric draws pairs without an edge from it
    try:
        yield
    finally:
        torch.set_rng_state(state)
        random.setstate(drawn)
        torch.set_num_threads(threads)


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
    """Return the network's own output in evaluation mode, computed in float64."""
    exact = _Exact(network).eval()
    with torch.no_grad():
        return np.asarray(exact(tensor(rows)).numpy(), dtype=np.float64)


def check_agreement(onnx: bytes, network: nn.Module, rows: Floats) -> float:
    """Return largest difference on ``rows``. Raises BerthError above ``TOLERANCE``."""
    fed = {"features": rows.astype(np.float32)}
    return agreement(onnx, fed, apply(network, rows), TOLERANCE)
