"""One round of message passing, by kind. Neighbours count as often as ``times`` says.

Each layer takes rows [n, inputs] and the edges of a ``GraphBatch`` and gives rows [n, outputs].
"""

from __future__ import annotations

from enum import StrEnum

import torch
from torch import Tensor, nn


class Kind(StrEnum):
    """Kinds of network: those of the thesis's Table 4.4."""

    SAGE = "sage"
    GCN = "gcn"
    GAT = "gat"
    GIN = "gin"
    MLP = "mlp"


def gathered(rows: Tensor, source: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """[n, width] weighted sum of what arrives at each row."""
    sent = rows.index_select(0, source) * weight.unsqueeze(1)
    return added_at(torch.zeros_like(rows), target, sent)


def added_at(rows: Tensor, target: Tensor, sent: Tensor) -> Tensor:
    """[n, width] rows with what is ``sent`` [e, width] to each.

    ``scatter_add``, as ``index_add`` becomes an assignment in ONNX.
    """
    return rows.scatter_add(0, target.unsqueeze(1).expand_as(sent), sent)


def degree(rows: Tensor, target: Tensor, times: Tensor) -> Tensor:
    """[n] neighbours of each row's nodes."""
    return torch.zeros_like(rows[:, 0]).scatter_add(0, target, times)


class Sage(nn.Module):
    """W1 h + W2 mean of the neighbours' h (Hamilton, Ying, Leskovec, NeurIPS 2017)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.own = nn.Linear(inputs, outputs)
        self.others = nn.Linear(inputs, outputs, bias=False)

    def forward(self, rows: Tensor, source: Tensor, target: Tensor, times: Tensor) -> Tensor:
        sent: Tensor = self.others(rows)
        share = times / degree(sent, target, times).clamp(min=1).index_select(0, target)
        own: Tensor = self.own(rows)
        return own + gathered(sent, source, target, share)


class Gcn(nn.Module):
    """W sum over neighbours and itself of h / sqrt(d d') (Kipf, Welling, ICLR 2017, equation 2)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, rows: Tensor, source: Tensor, target: Tensor, times: Tensor) -> Tensor:
        scale = (degree(rows, target, times) + 1).rsqrt().unsqueeze(1)
        scaled = rows * scale
        mixed: Tensor = self.linear(scale * (scaled + gathered(scaled, source, target, times)))
        return mixed


class Gat(nn.Module):
    """Neighbours and itself weighed by additive attention, four heads (Velickovic et al., 2018)."""

    def __init__(self, inputs: int, outputs: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.linear = nn.Linear(inputs, outputs)
        self.asks = nn.Linear(outputs, heads, bias=False)
        self.tells = nn.Linear(outputs, heads, bias=False)

    def forward(self, rows: Tensor, source: Tensor, target: Tensor, times: Tensor) -> Tensor:
        sent: Tensor = self.linear(rows)
        asks, tells = self.asks(sent), self.tells(sent)
        itself = self._score(asks + tells)
        score = self._score(asks.index_select(0, target) + tells.index_select(0, source))
        score = score * times.unsqueeze(1)
        total = added_at(itself, target, score)
        width = sent.shape[1] // self.heads
        mixed = sent * itself.repeat_interleave(width, dim=1)
        weighed = sent.index_select(0, source) * score.repeat_interleave(width, dim=1)
        return added_at(mixed, target, weighed) / total.repeat_interleave(width, dim=1)

    @staticmethod
    def _score(raw: Tensor) -> Tensor:
        # The bound stands where a softmax would take the largest away: exp must not overflow.
        return nn.functional.leaky_relu(raw, 0.2).clamp(max=30.0).exp()


class Gin(nn.Module):
    """MLP of (1 + epsilon) h + sum of the neighbours' h (Xu et al., ICLR 2019, equation 4.1)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.epsilon = nn.Parameter(torch.zeros(1))
        self.linear = nn.Linear(inputs, outputs)
        self.second = nn.Linear(outputs, outputs)

    def forward(self, rows: Tensor, source: Tensor, target: Tensor, times: Tensor) -> Tensor:
        total = (1 + self.epsilon) * rows + gathered(rows, source, target, times)
        made: Tensor = self.second(torch.relu(self.linear(total)))
        return made


class Plain(nn.Module):
    """W h: no edges."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, rows: Tensor, source: Tensor, target: Tensor, times: Tensor) -> Tensor:
        made: Tensor = self.linear(rows)
        return made


LAYERS: dict[Kind, type[nn.Module]] = {
    Kind.SAGE: Sage, Kind.GCN: Gcn, Kind.GAT: Gat, Kind.GIN: Gin, Kind.MLP: Plain,
}  # fmt: skip
