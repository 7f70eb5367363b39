"""What is counted as kept for the backward pass, beside what PyTorch itself keeps."""

from __future__ import annotations

from typing import Any

import pytest

from berth.predictor.footprint.saved import saved
from berth.predictor.footprint.storage import storage
from berth.predictor.graphs.front_ends import torch_module
from berth.predictor.graphs.graph import ModelGraph

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")


def kept_by_torch(module: Any, x: Any) -> int:
    """Bytes of the tensors that autograd saves, each memory once, weights and input left out."""
    own = {p.data_ptr() for p in (*module.parameters(), *module.buffers())} | {x.data_ptr()}
    found: dict[int, int] = {}

    def pack(tensor: Any) -> Any:
        kept = tensor.untyped_storage()
        if kept.data_ptr() not in own:
            found[kept.data_ptr()] = kept.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        made = module(x)
    assert made.requires_grad
    return sum(found.values())


def kept_by_us(graph: ModelGraph) -> int:
    stored = storage(graph, strided=True, fused=False)
    found = saved(graph, stored)
    memories = {stored.owner[node] for node in found.nodes}
    return sum(stored.written[n] for n in memories) + sum(stored.twin) + found.extra_bytes


class Convolutions(torch.nn.Module):
    """Convolution, normalisation, ReLU, and a residual sum."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16))
        self.one = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16))
        self.relu, self.pool = nn.ReLU(), nn.MaxPool2d(2)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        x = self.pool(self.relu(self.stem(x)))
        return self.head(self.relu(x + self.one(x)).mean((2, 3)))


class Encoder(torch.nn.Module):
    """Attention written out, layer normalisations, GELU."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        nn = torch.nn
        self.heads, self.width = heads, width
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.joined, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        b, n, _ = x.shape
        parts = self.joined(self.norms[0](x)).reshape(b, n, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        weights = ((q * 0.25) @ k.transpose(-2, -1)).softmax(-1)
        made = (weights @ v).transpose(1, 2).reshape(b, n, self.width)
        x = x + self.out(made)
        return x + self.down(torch.nn.functional.gelu(self.up(self.norms[1](x))))


@pytest.mark.parametrize(
    ("module", "shape"), [(Convolutions, (4, 3, 32, 32)), (Encoder, (4, 48, 32))]
)
def test_counted_is_what_autograd_keeps(module: Any, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    made, x = module().eval(), torch.randn(shape)
    graph = torch_module.graph_of(made, inputs=x, batch=shape[0])
    assert kept_by_us(graph) == pytest.approx(kept_by_torch(made, x), rel=0.15)
