"""The GNN alone and with a sentence's embedding: trained, adapted and stored as other stages are.

The thesis's baseline (GNN) knows the platform and the run's settings as columns; its variant reads
them as a text that a sentence encoder (MiniLM, mpnet ...) turned into a vector (section 7.5.2).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from lab.ground.table import Floats
from lab.latency.timm_runs import Runs, scalars
from lab.published.graph_language import checkpoints
from lab.published.graph_language.checkpoints import Checkpoint
from lab.published.graph_language.corpus import STATICS
from lab.published.graph_language.graph_token import Regressor
from lab.published.graph_language.language_config import AdaptConfig
from lab.published.graph_language.stage_loop import Loss, Stage
from lab.published.graph_language.stages import PRETRAIN, Parts, Stages, digest_of

GNN, GNN_SENTENCE = "gnn", "gnn-sentence"
NAMES = {GNN: "GNN", GNN_SENTENCE: "GNN + sentence embedding"}
_TOGETHER = 64


@dataclass(frozen=True)
class Baseline:
    """One of ``NAMES``, from the encoder of stage 1."""

    stages: Stages
    name: str

    @property
    def parts(self) -> Parts:
        """Return what all stages share."""
        return self.stages.parts

    @cached_property
    def context(self) -> Tensor:
        """Return [rows, columns] what stands beside the graph. Raises DocumentError (sentence
        encoder)."""
        corpus = self.parts.corpus
        if self.name == GNN:
            return columns(corpus.runs, corpus.division.base.tolist())
        folder = self.parts.base / str(self.parts.config.sentences)
        used = np.unique(np.concatenate(corpus.division.all)).tolist()
        found = sentences(checkpoints.checkpoint(folder), [corpus.prompts[row] for row in used])
        context = torch.zeros(len(corpus.prompts), found.shape[1])
        context[used] = found
        return context

    @cached_property
    def model(self) -> nn.Module:
        """Made from the encoder after stage 1."""
        self.stages.pretrain()
        encoder, width = deepcopy(self.parts.autoencoder.encoder), self.parts.config.regressor.width
        inputs = self.context.shape[1]
        return self.parts.drawn(self.name, lambda: Regressor(encoder, STATICS, inputs, width))

    @cached_property
    def centre(self) -> float:
        """Return mean logarithm of the base's seconds."""
        runs, division = self.parts.corpus.runs, self.parts.corpus.division
        return float(np.log(runs.seconds[division.base]).mean())

    def learn(self) -> None:
        """Learn from the base's rows."""
        wanted, rows = self.parts.config.regressor, self.parts.corpus.division.base.tolist()
        self._train(self.name, rows, wanted.epochs, wanted.rate, None)

    def adapt(self, wanted: AdaptConfig) -> None:
        """Learn from the given rows of a group, after ``learn``."""
        rows, config = self.stages.dealt(wanted).given.tolist(), self.parts.config.regressor
        stage = f"{self.name}-{wanted.stage}"
        self._train(stage, rows, config.adapt_epochs, config.rate / 3, wanted)

    def predict(self, wanted: AdaptConfig, *, before: bool = False) -> Floats:
        """Return [tested rows] seconds, after the adaptation or before it."""
        if before:
            self.learn()
        else:
            self.adapt(wanted)
        rows = self.stages.dealt(wanted).test.tolist()
        self.model.eval()
        parts = [rows[start : start + _TOGETHER] for start in range(0, len(rows), _TOGETHER)]
        with torch.no_grad():
            logs = torch.cat([self._guess(some) for some in parts])
        return np.asarray(np.exp(logs.double().cpu().numpy() + self.centre))

    def _guess(self, rows: Sequence[int]) -> Tensor:
        corpus, device = self.parts.corpus, self.parts.device
        graphs = corpus.runs.graph[list(rows)]
        distinct, at = np.unique(graphs, return_inverse=True)
        guess: Tensor = self.model(
            corpus.batch(distinct.tolist(), device), torch.from_numpy(at).to(device),
            corpus.statics[graphs].to(device), self.context[list(rows)].to(device),
        )  # fmt: skip
        return guess

    def _train(
        self, stage: str, rows: Sequence[int], epochs: int, rate: float, after: AdaptConfig | None
    ) -> None:
        config = self.parts.config.regressor
        truth = torch.from_numpy(np.log(self.parts.corpus.runs.seconds) - self.centre).float()

        def loss(places: Sequence[int]) -> Tensor:
            self.model.train()
            some = [rows[n] for n in places]
            wanted = truth[some].to(self.parts.device)
            return functional.huber_loss(self._guess(some), wanted, delta=0.2)

        def prepare() -> Loss:
            if after is not None:
                self.learn()
            return loss

        context = hashlib.sha256(self.context.numpy().tobytes()).hexdigest()
        about: list[object] = [self.name, config.model_dump(mode="json"), context]
        about += [] if after is None else [after.group, epochs]
        self.stages.run(Stage(
            stage, digest_of(self.parts.settings(PRETRAIN), *about), len(rows), epochs,
            min(config.batch, max(4, len(rows) // 4)), {"model": self.model}, {"model": rate},
            prepare,
        ))  # fmt: skip


def columns(runs: Runs, base: Sequence[int]) -> Tensor:
    """Return [rows, columns] the settings of each run as numbers, standardised by the base's
    rows."""
    rows = scalars(runs, with_totals=False)
    mean, deviation = rows[list(base)].mean(axis=0), rows[list(base)].std(axis=0)
    # A device that the base never saw has a column that never moved: it has its own scale.
    scaled = (rows - mean) / np.where(deviation > 1e-6, deviation, 1.0)
    return torch.from_numpy(scaled.astype(np.float32))


@torch.no_grad()
def sentences(found: Checkpoint, texts: Sequence[str]) -> Tensor:
    """Return [texts, width] the mean of each text's token vectors, of length 1 (sentence-BERT's
    way)."""
    words, model = checkpoints.tokenizer(found), checkpoints.text_encoder(found).eval()
    distinct, rows = sorted(set(texts)), []
    for start in range(0, len(distinct), 32):
        given = words(distinct[start : start + 32], padding=True, return_tensors="pt")
        vectors = model(**given).last_hidden_state
        attended = given["attention_mask"].unsqueeze(-1).to(vectors.dtype)
        mean = (vectors * attended).sum(dim=1) / attended.sum(dim=1).clamp(min=1)
        rows.append(functional.normalize(mean, dim=1))
    place = {text: n for n, text in enumerate(distinct)}
    return torch.cat(rows)[[place[text] for text in texts]]
