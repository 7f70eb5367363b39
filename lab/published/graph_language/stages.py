"""Pre-train, align, regress, adapt: each stage goes on from the one before.

1. ``pretrain``: the encoder restores hidden node features of graphs without times.
2. ``align``: projection and language model learn to summarise graphs; the encoder is frozen.
3. ``regress``: all three learn to write times.
4. ``adapt-*``: all three go on with a few rows of a new device or family.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from lab.ground.resume import Resume
from lab.ground.splits import Fold
from lab.ground.table import Floats
from lab.published.graph_language import checkpoints
from lab.published.graph_language.checkpoints import Checkpoint, RandomModel, random_folder
from lab.published.graph_language.corpus import STATICS, Corpus
from lab.published.graph_language.graph_token import (
    MaskedAutoEncoder,
    Masking,
    Projection,
    codes,
    gin,
)
from lab.published.graph_language.language_config import AdaptConfig, LanguageConfig, StageConfig
from lab.published.graph_language.language_model import GraphLanguage
from lab.published.graph_language.stage_training import (
    Advance,
    Loss,
    Stage,
    draw,
    restored,
    trained,
)
from lab.published.graph_language.texts import SUMMARISE, read, write
from lab.published.networks import seeded

PRETRAIN, ALIGN, REGRESS = "pretrain", "align", "regress"
_SPARE = 4
"""Tokens that an answer may have beyond the longest right one."""
_TOGETHER = 32
Progress = Callable[[str, int], AbstractContextManager[Advance]]


@dataclass(frozen=True)
class Stages:
    """All stages of one configuration; modules are made when first asked for."""

    config: LanguageConfig
    folder: Path
    """Paths of the configuration are relative to it."""
    corpus: Corpus
    progress: Progress

    @property
    def device(self) -> torch.device:
        """Return where networks are."""
        return torch.device(self.config.device)

    @property
    def out(self) -> Path:
        """Return the folder of weights and answers."""
        return self.folder / self.config.out

    def drawn(self, name: str, make: Callable[[], nn.Module]) -> nn.Module:
        """Return a new module whose weights depend on the seed and its name alone."""
        with seeded(draw(self.config.seed, name)):
            return make().to(self.device)

    @cached_property
    def autoencoder(self) -> MaskedAutoEncoder:
        """Return stage 1's network; its ``encoder`` is that of all later stages."""
        encoder, pretrain = self.config.encoder, self.config.pretrain
        masking = Masking(pretrain.mask, pretrain.replaced, pretrain.power)
        return self.drawn(
            "encoder", lambda: MaskedAutoEncoder(gin(encoder.layers, encoder.width), masking)
        )

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """Return the language model's folder; a random one is written first. DocumentError."""
        model = self.config.language_model
        if model.path is not None:
            return checkpoints.checkpoint(self.folder / model.path)
        texts = [*self.corpus.summaries, *self.corpus.prompts, SUMMARISE]
        size, seed = model.random or RandomModel(), draw(self.config.seed, "random")
        return checkpoints.checkpoint(random_folder(self.out, size, texts, seed))

    @cached_property
    def language(self) -> GraphLanguage:
        """Return the language model with its adapter."""
        settings = self.config.language_model
        return self.drawn("adapter", lambda: GraphLanguage(self.checkpoint, settings))

    @cached_property
    def projection(self) -> Projection:
        """Return the module from a graph's code to a token."""
        inputs = self.config.encoder.width + STATICS
        width, size = self.language.width, self.language.token_size
        return self.drawn("projection", lambda: Projection(inputs, width, size))

    def graph_codes(self, graphs: Sequence[int]) -> Tensor:
        """Return [graphs, code width] what the projection takes: the mean of a graph's nodes, and
        its totals, which a mean forgets (the thesis has none here, equation 7.5)."""
        encoded = codes(self.autoencoder.encoder, self.corpus.batch(graphs, self.device))
        return torch.cat([encoded, self.corpus.statics[list(graphs)].to(self.device)], dim=1)

    def graph_tokens(self, rows: Sequence[int]) -> Tensor:
        """Return [rows, token width] the tokens of the rows' graphs."""
        distinct, place = np.unique(self.corpus.runs.graph[list(rows)], return_inverse=True)
        projected: Tensor = self.projection(self.graph_codes(distinct.tolist())[place])
        return projected

    def answers(self, rows: Sequence[int]) -> list[str]:
        """Return the measured times of these rows as text."""
        return [write(float(self.corpus.runs.seconds[row])) for row in rows]

    def settings(self, stage: str, *more: object) -> str:
        """Return a digest of all that the weights after a stage depend on."""
        config = self.config
        parts: list[object] = [self.corpus.digest, config.seed]
        parts += [config.encoder.model_dump(mode="json"), config.pretrain.model_dump(mode="json")]
        if stage != PRETRAIN:
            model = config.language_model.model_dump(mode="json", exclude={"path"})
            parts += [self.checkpoint.digest, model, config.align.model_dump(mode="json")]
        if stage not in (PRETRAIN, ALIGN):
            parts.append(config.regress.model_dump(mode="json"))
        text = json.dumps([*parts, *more], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def run(self, stage: Stage) -> list[float]:
        """Load the stage where it is done, else train it; return the loss of each epoch."""
        losses = restored(stage, self.out)
        if losses is not None:
            return losses
        with self.progress(stage.name, stage.steps) as advance:
            return trained(stage, self.out, seed=self.config.seed, advance=advance)

    def all(self) -> dict[str, list[float]]:
        """Run all stages in order; return the losses of each."""
        losses = {PRETRAIN: self.pretrain(), ALIGN: self.align(), REGRESS: self.regress()}
        return losses | {config.stage: self.adapt(config) for config in self.config.adapt}

    def rows_of(self, adaptation: AdaptConfig) -> Fold:
        """Return an adaptation's rows."""
        return self.corpus.division.adaptations[self.config.adapt.index(adaptation)]

    def pretrain(self) -> list[float]:
        """Run stage 1."""
        settings, seen, model = self.config.pretrain, self.corpus.seen, self.autoencoder

        def loss(places: Sequence[int]) -> Tensor:
            error: Tensor = model.train()(
                self.corpus.batch([seen[place] for place in places], self.device)
            )
            return error

        return self.run(Stage(
            PRETRAIN, self.settings(PRETRAIN), len(seen), settings.epochs, settings.batch,
            {"autoencoder": model}, {"autoencoder": settings.rate}, lambda: loss,
        ))  # fmt: skip

    def align(self) -> list[float]:
        """Run stage 2."""
        seen = self.corpus.seen

        def prepare() -> Loss:
            self.pretrain()
            self.autoencoder.eval()
            parts = [seen[start : start + _TOGETHER] for start in range(0, len(seen), _TOGETHER)]
            with torch.no_grad():
                frozen = torch.cat([self.graph_codes(part) for part in parts])

            def loss(places: Sequence[int]) -> Tensor:
                self.language.train()
                texts = [self.corpus.summaries[seen[place]] for place in places]
                tokens = self.projection(frozen[list(places)])
                return self.language.loss(tokens, [SUMMARISE] * len(places), texts)

            return loss

        config = self.config.align.model_copy(update={"encoder_rate": 0.0})
        rate = self.config.align.encoder_rate
        return self._language_stage(ALIGN, config, len(seen), prepare, projection_rate=rate)

    def regress(self) -> list[float]:
        """Run stage 3."""
        rows = self.corpus.division.base.tolist()

        def prepare() -> Loss:
            self.align()
            return self._loss_of_times(rows)

        return self._language_stage(REGRESS, self.config.regress, len(rows), prepare)

    def adapt(self, adaptation: AdaptConfig) -> list[float]:
        """Run stage 4 for one group."""
        rows = self.rows_of(adaptation).train.tolist()

        def prepare() -> Loss:
            self.regress()
            return self._loss_of_times(rows)

        return self._language_stage(
            adaptation.stage, adaptation, len(rows), prepare, adaptation.model_dump(mode="json")
        )

    def _language_stage(
        self,
        name: str,
        config: StageConfig,
        examples: int,
        prepare: Callable[[], Loss],
        *more_settings: object,
        projection_rate: float | None = None,
    ) -> list[float]:
        modules = {"encoder": self.autoencoder.encoder, "projection": self.projection,
                   "language": self.language.model}  # fmt: skip
        if projection_rate is None:
            projection_rate = config.encoder_rate
        rates = {"encoder": config.encoder_rate, "projection": projection_rate,
                 "language": config.language_rate}  # fmt: skip
        return self.run(Stage(
            name, self.settings(name, *more_settings), examples, config.epochs, config.batch,
            modules, rates, prepare,
        ))  # fmt: skip

    def _loss_of_times(self, rows: Sequence[int]) -> Loss:
        answers = self.answers(rows)

        def loss(places: Sequence[int]) -> Tensor:
            self.autoencoder.train()
            self.language.train()
            chosen = [rows[place] for place in places]
            prompts = [self.corpus.prompts[row] for row in chosen]
            texts = [answers[place] for place in places]
            return self.language.loss(self.graph_tokens(chosen), prompts, texts)

        return loss

    def predict(self, adaptation: AdaptConfig, *, before: bool = False) -> Floats:
        """Return [tested rows] seconds after an adaptation, or before it; NaN: not a number."""
        rows = self.rows_of(adaptation).test.tolist()
        learnt = () if before else (adaptation.model_dump(mode="json"),)
        key = f"{self.settings(adaptation.stage, *learnt)}:{adaptation.group}"

        def answer() -> list[str]:
            if before:
                self.regress()
            else:
                self.adapt(adaptation)
            return self._written(rows)

        texts = Resume(self.out / "answers").value(key, answer)
        return np.array([read(text) for text in texts])

    def _written(self, rows: Sequence[int]) -> list[str]:
        right = self.answers(self.corpus.division.base.tolist())
        most = max(len(self.language.ids(text)) for text in right) + _SPARE
        self.language.eval()
        self.autoencoder.eval()
        texts: list[str] = []
        with self.progress("answering", -(-len(rows) // _TOGETHER)) as advance, torch.no_grad():
            for start in range(0, len(rows), _TOGETHER):
                part = rows[start : start + _TOGETHER]
                prompts = [self.corpus.prompts[row] for row in part]
                texts += self.language.answer(self.graph_tokens(part), prompts, most)
                advance()
        return texts
