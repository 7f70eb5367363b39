"""The GNN alone and with a sentence's embedding: trained, adapted and kept as other stages are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from berth.predictor.families.program.ceilings import Floats
from lab.published.graph_language import pretrained
from lab.published.graph_language.config import AdaptConfig
from lab.published.graph_language.corpus import STATICS
from lab.published.graph_language.loop import Loss, Plan, Trainable, draw, ended, train
from lab.published.graph_language.parts import Parts
from lab.published.graph_language.regressor import Regressor, columns, sentences
from lab.published.graph_language.stages import Stages, adapted
from lab.published.relative_networks.seeded import seeded

GNN, GNN_SENTENCE = "gnn", "gnn-sentence"
_TOGETHER = 64


@dataclass(frozen=True)
class Baseline:
    """One of ``GNN`` and ``GNN_SENTENCE``, from the encoder of stage 1."""

    stages: Stages
    name: str

    @property
    def parts(self) -> Parts:
        """What all stages share."""
        return self.stages.parts

    @cached_property
    def context(self) -> Tensor:
        """[rows, columns] what stands beside the graph. Raises DocumentError (sentence encoder)."""
        corpus = self.parts.corpus
        if self.name == GNN:
            return columns(corpus.runs, corpus.division.base.tolist())
        folder = self.parts.base / str(self.parts.config.sentences)
        division = corpus.division
        places = [division.base, *(p for a in division.adaptations for p in (a.given, a.test))]
        used = np.unique(np.concatenate(places)).tolist()
        found = sentences(pretrained.checkpoint(folder), [corpus.prompts[row] for row in used])
        context = torch.zeros(len(corpus.prompts), found.shape[1])
        context[used] = found
        return context

    @cached_property
    def model(self) -> Regressor:
        """Made from the encoder after stage 1."""
        self.stages.pretrain()
        encoder = deepcopy(self.parts.autoencoder.encoder)
        with seeded(draw(self.parts.config.seed, self.name)):
            made = Regressor(
                encoder, STATICS, self.context.shape[1], self.parts.config.regressor.width
            )
        return made.to(self.parts.device)

    @cached_property
    def centre(self) -> float:
        """Mean logarithm of the base's seconds."""
        runs, division = self.parts.corpus.runs, self.parts.corpus.division
        return float(np.log(runs.seconds[division.base]).mean())

    def learn(self) -> None:
        """From the base's rows."""
        wanted = self.parts.config.regressor
        rows = self.parts.corpus.division.base.tolist()
        self._train(self.name, rows, wanted.epochs, lambda: self._loss(rows), [])

    def adapt(self, wanted: AdaptConfig) -> None:
        """From the given rows of a group, after ``learn``."""
        rows = dict(self.stages.adaptations())[wanted].given.tolist()
        epochs = self.parts.config.regressor.adapt_epochs

        def prepare() -> Loss:
            self.learn()
            return self._loss(rows)

        stage = f"{self.name}-{adapted(wanted.group)}"
        self._train(stage, rows, epochs, prepare, [wanted.device, wanted.family, epochs])

    def predict(self, wanted: AdaptConfig, *, before: bool = False) -> Floats:
        """[tested rows] seconds, after the adaptation or before it."""
        if before:
            self.learn()
        else:
            self.adapt(wanted)
        rows = dict(self.stages.adaptations())[wanted].test.tolist()
        self.model.eval()
        with torch.no_grad():
            logs = torch.cat([
                self._guess(rows[start : start + _TOGETHER])
                for start in range(0, len(rows), _TOGETHER)
            ])  # fmt: skip
        return np.exp(logs.double().cpu().numpy() + self.centre)

    def _guess(self, rows: Sequence[int]) -> Tensor:
        corpus, device = self.parts.corpus, self.parts.device
        graphs = corpus.runs.graph[list(rows)]
        distinct, at = np.unique(graphs, return_inverse=True)
        guess: Tensor = self.model(
            corpus.batch(distinct.tolist(), device),
            torch.from_numpy(at).to(device),
            corpus.statics[graphs].to(device),
            self.context[list(rows)].to(device),
        )
        return guess

    def _loss(self, rows: Sequence[int]) -> Loss:
        truth = torch.from_numpy(np.log(self.parts.corpus.runs.seconds) - self.centre).float()

        def loss(places: Sequence[int]) -> Tensor:
            self.model.train()
            some = [rows[n] for n in places]
            wanted = truth[some].to(self.parts.device)
            return functional.huber_loss(self._guess(some), wanted, delta=0.2)

        return loss

    def _train(
        self,
        stage: str,
        rows: Sequence[int],
        epochs: int,
        prepare: Callable[[], Loss],
        more: list[object],
    ) -> None:
        config, stages = self.parts.config, self.stages
        wanted = config.regressor
        model, rate = self.model, wanted.rate if not more else wanted.rate / 3
        parts = [self.parts.settings("pretrain"), self.name, wanted.model_dump(mode="json"), *more]
        if self.name == GNN_SENTENCE:
            parts.append(hashlib.sha256(self.context.numpy().tobytes()).hexdigest())
        settings = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        batch = min(wanted.batch, max(4, len(rows) // 4))
        plan = Plan(stage, settings, len(rows), epochs, batch, config.seed, config.keep_every)
        trained = Trainable({"model": model}, {"model": rate})
        if ended(plan, trained, stages.states):
            return
        loss = prepare()
        with stages.progress(stage, plan.steps) as advance:
            train(
                plan,
                trained,
                loss,
                states=stages.states,
                advance=advance,
                stop_after=stages.stop_after,
            )
