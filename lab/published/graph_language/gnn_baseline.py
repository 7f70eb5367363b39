"""The thesis's baseline: the GNN alone, which knows a run's settings as columns (section 7.5.2)."""

from __future__ import annotations

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
from lab.published.graph_language.corpus import STATICS
from lab.published.graph_language.graph_token import Regressor
from lab.published.graph_language.language_config import AdaptConfig
from lab.published.graph_language.stage_training import Loss, Stage
from lab.published.graph_language.stages import PRETRAIN, Stages

GNN = "gnn"
_TOGETHER = 64


@dataclass(frozen=True)
class GnnBaseline:
    """A regressor on the encoder of stage 1."""

    stages: Stages

    @cached_property
    def context(self) -> Tensor:
        """Return [rows, columns] the settings that stand beside a row's graph."""
        return columns(self.stages.corpus.runs, self.stages.corpus.division.base.tolist())

    @cached_property
    def model(self) -> nn.Module:
        """Return the regressor, untrained but for the encoder."""
        self.stages.pretrain()
        encoder = deepcopy(self.stages.autoencoder.encoder)
        inputs, width = self.context.shape[1], self.stages.config.regressor.width
        return self.stages.drawn(GNN, lambda: Regressor(encoder, STATICS, inputs, width))

    @cached_property
    def centre(self) -> float:
        """Return the mean logarithm of the base's seconds."""
        corpus = self.stages.corpus
        return float(np.log(corpus.runs.seconds[corpus.division.base]).mean())

    def learn(self) -> None:
        """Learn from the base's rows."""
        config, rows = self.stages.config.regressor, self.stages.corpus.division.base.tolist()
        self._train(GNN, rows, config.epochs, config.rate, None)

    def adapt(self, adaptation: AdaptConfig) -> None:
        """Go on with an adaptation's rows."""
        rows, config = self.stages.rows_of(adaptation).train.tolist(), self.stages.config.regressor
        name = f"{GNN}-{adaptation.stage}"
        self._train(name, rows, config.adapt_epochs, config.rate / 3, adaptation)

    def predict(self, adaptation: AdaptConfig, *, before: bool = False) -> Floats:
        """Return [tested rows] seconds after the adaptation, or before it."""
        if before:
            self.learn()
        else:
            self.adapt(adaptation)
        rows = self.stages.rows_of(adaptation).test.tolist()
        self.model.eval()
        parts = [rows[start : start + _TOGETHER] for start in range(0, len(rows), _TOGETHER)]
        with torch.no_grad():
            logs = torch.cat([self._guess(part) for part in parts])
        return np.asarray(np.exp(logs.double().cpu().numpy() + self.centre))

    def _guess(self, rows: Sequence[int]) -> Tensor:
        corpus, device = self.stages.corpus, self.stages.device
        graphs = corpus.runs.graph[list(rows)]
        distinct, place = np.unique(graphs, return_inverse=True)
        guess: Tensor = self.model(
            corpus.batch(distinct.tolist(), device), torch.from_numpy(place).to(device),
            corpus.statics[graphs].to(device), self.context[list(rows)].to(device),
        )  # fmt: skip
        return guess

    def _train(
        self, name: str, rows: Sequence[int], epochs: int, rate: float, after: AdaptConfig | None
    ) -> None:
        config, corpus = self.stages.config.regressor, self.stages.corpus
        truth = torch.from_numpy(np.log(corpus.runs.seconds) - self.centre).float()

        def loss(places: Sequence[int]) -> Tensor:
            self.model.train()
            chosen = [rows[place] for place in places]
            expected = truth[chosen].to(self.stages.device)
            return functional.huber_loss(self._guess(chosen), expected, delta=0.2)

        def prepare() -> Loss:
            if after is not None:
                self.learn()
            return loss

        more = [GNN, config.model_dump(mode="json"), None if after is None else after.group]
        self.stages.run(Stage(
            name, self.stages.settings(PRETRAIN, *more), len(rows), epochs,
            min(config.batch, max(4, len(rows) // 4)), {"model": self.model}, {"model": rate},
            prepare,
        ))  # fmt: skip


def columns(runs: Runs, base: Sequence[int]) -> Tensor:
    """Return [rows, columns] the settings of each run, standardised by the base's rows."""
    rows = scalars(runs)
    mean, deviation = rows[list(base)].mean(axis=0), rows[list(base)].std(axis=0)
    # The column of a device that the base never saw never moved there: it keeps its own scale.
    scaled = (rows - mean) / np.where(deviation > 1e-6, deviation, 1.0)
    return torch.from_numpy(scaled.astype(np.float32))
