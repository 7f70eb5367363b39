"""The GNN without a language model, and the variant with a sentence's embedding beside it.

The thesis's baseline (GNN) knows the platform and the run's settings as columns; its variant reads
them as a text that a sentence encoder (MiniLM, mpnet ...) turned into a vector (section 7.5.2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from lab.latency.timm_runs import Runs, scalars
from lab.published.graph_language import pretrained
from lab.published.graph_language.pretrained import Checkpoint
from lab.published.graph_networks.batch import GraphBatch
from lab.published.graph_networks.encoder import Encoder, readout


def codes(encoder: Encoder, batch: GraphBatch) -> Tensor:
    """[graphs, width] the mean of each graph's nodes (equation 7.5)."""
    return readout(encoder.nodes(batch), batch.count, batch.owner, batch.graphs)


class Regressor(nn.Module):
    """Graph code, totals and context to the logarithm of seconds."""

    def __init__(self, encoder: Encoder, statics: int, context: int, width: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.context = nn.Linear(context, width)
        self.head = nn.Sequential(
            nn.Linear(encoder.settings.width + statics + width, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 1),
        )

    def forward(self, batch: GraphBatch, at: Tensor, statics: Tensor, context: Tensor) -> Tensor:
        """[rows] from the batch's graphs; ``at``: [rows] the graph of each row."""
        graph = torch.cat([codes(self.encoder, batch)[at], statics], dim=1)
        known = torch.relu(self.context(context))
        guess: Tensor = self.head(torch.cat([graph, known], dim=1))
        return guess.squeeze(1)


def columns(runs: Runs, base: Sequence[int]) -> Tensor:
    """[rows, columns] the settings of each run as numbers, standardised by the base's rows."""
    rows = scalars(runs, with_totals=False)
    mean, deviation = rows[list(base)].mean(axis=0), rows[list(base)].std(axis=0)
    # A device that the base never saw has a column that never moved: it keeps its own scale.
    scaled = (rows - mean) / np.where(deviation > 1e-6, deviation, 1.0)
    return torch.from_numpy(scaled.astype(np.float32))


@torch.no_grad()
def sentences(found: Checkpoint, texts: Sequence[str]) -> Tensor:
    """[texts, width] the mean of each text's token vectors, of length 1 (sentence-BERT's way)."""
    words, model = pretrained.tokenizer(found), pretrained.text_encoder(found).eval()
    distinct = sorted(set(texts))
    rows = []
    for start in range(0, len(distinct), 32):
        given = words(distinct[start : start + 32], padding=True, return_tensors="pt")
        vectors = model(**given).last_hidden_state
        attended = given["attention_mask"].unsqueeze(-1).to(vectors.dtype)
        mean = (vectors * attended).sum(dim=1) / attended.sum(dim=1).clamp(min=1)
        rows.append(nn.functional.normalize(mean, dim=1))
    place = {text: n for n, text in enumerate(distinct)}
    return torch.cat(rows)[[place[text] for text in texts]]
