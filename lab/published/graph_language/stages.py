"""Pre-train, align, regress, adapt: each stage from the one before, each resumable.

1. ``pretrain``: the encoder restores hidden node features (unlabelled graphs).
2. ``align``: projection and language model learn to summarise graphs; the encoder is frozen.
3. ``regress``: all three learn to write times.
4. ``adapt-*``: all three go on with a few rows of a device or family that is new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from berth.predictor.learning.resume import Resume
from lab.published.graph_language import checkpoints
from lab.published.graph_language.checkpoints import Checkpoint, RandomModel, random_folder
from lab.published.graph_language.corpus import STATICS, Adaptation, Corpus
from lab.published.graph_language.graph_token import (
    MaskedAutoEncoder,
    Masking,
    Projection,
    codes,
    gin,
)
from lab.published.graph_language.language_config import AdaptConfig, LanguageConfig, StageConfig
from lab.published.graph_language.language_model import Adapter, GraphLanguage
from lab.published.graph_language.stage_loop import (
    Advance,
    Loop,
    Loss,
    Stage,
    StateCard,
    States,
    draw,
    ended,
)
from lab.published.graph_language.texts import SUMMARISE, read, write
from lab.published.networks import seeded

PRETRAIN, ALIGN, REGRESS = "pretrain", "align", "regress"
FORMAT = 2
"""Of stored states: another number makes old ones unreadable."""
_SPARE = 4
"""Tokens that an answer may have beyond the longest right one."""
_TOGETHER = 32
Progress = Callable[[str, int], AbstractContextManager[Advance]]


@dataclass(frozen=True)
class Parts:
    """What the stages train; made when first asked for, always in the same state."""

    config: LanguageConfig
    base: Path
    """Paths of the configuration are relative to it."""
    corpus: Corpus

    @property
    def device(self) -> torch.device:
        """Where networks are."""
        return torch.device(self.config.device)

    @property
    def out(self) -> Path:
        """Where everything is stored."""
        return self.base / self.config.out

    def drawn(self, what: str, make: Callable[[], nn.Module]) -> nn.Module:
        """Return a module whose weights depend on the seed and its name alone."""
        with seeded(draw(self.config.seed, what)):
            return make().to(self.device)

    @cached_property
    def autoencoder(self) -> MaskedAutoEncoder:
        """Stage 1's; its ``encoder`` is that of all later stages."""
        encoder, wanted = self.config.encoder, self.config.pretrain
        masking = Masking(wanted.mask, wanted.replaced, wanted.power)
        return self.drawn(
            "encoder", lambda: MaskedAutoEncoder(gin(encoder.layers, encoder.width), masking)
        )

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """Return the language model's folder, checked; a random one is written first.
        DocumentError."""
        wanted = self.config.language_model
        if wanted.path is not None:
            return checkpoints.checkpoint(self.base / wanted.path)
        texts = [*self.corpus.summaries, *self.corpus.prompts, SUMMARISE]
        size, seed = wanted.random or RandomModel(), draw(self.config.seed, "random")
        return checkpoints.checkpoint(random_folder(self.out, size, texts, seed))

    @cached_property
    def language(self) -> GraphLanguage:
        """Return the language model with its adapter."""
        wanted = self.config.language_model
        adapter = Adapter(wanted.rank, wanted.alpha, wanted.dropout)
        dtype = getattr(torch, wanted.precision)
        return self.drawn("adapter", lambda: GraphLanguage(self.checkpoint, adapter, dtype))

    @cached_property
    def projection(self) -> Projection:
        """Return the module from a graph's code to a token."""
        inputs = self.config.encoder.width + (STATICS if self.config.encoder.statics else 0)
        language = self.language
        return self.drawn(
            "projection", lambda: Projection(inputs, language.width, language.token_size)
        )

    def graph_codes(self, graphs: Sequence[int]) -> Tensor:
        """Return [graphs, codes] what the projection takes."""
        found = codes(self.autoencoder.encoder, self.corpus.batch(graphs, self.device))
        if not self.config.encoder.statics:
            return found
        return torch.cat([found, self.corpus.statics[list(graphs)].to(self.device)], dim=1)

    def tokens(self, rows: Sequence[int]) -> Tensor:
        """Return [rows, tokens] of their graphs, through encoder and projection as they stand."""
        graphs = self.corpus.runs.graph[list(rows)].tolist()
        distinct = sorted(set(graphs))
        place = {graph: n for n, graph in enumerate(distinct)}
        known = self.graph_codes(distinct)
        projected: Tensor = self.projection(known[[place[graph] for graph in graphs]])
        return projected

    def answers(self, rows: Sequence[int]) -> list[str]:
        """Return the times of these rows as text."""
        seconds = self.corpus.runs.seconds
        return [write(float(seconds[row]), self.config.notation) for row in rows]

    @cached_property
    def modules(self) -> dict[str, nn.Module]:
        """Return what stage 3 and adaptations train, by the name they are stored under."""
        return {"encoder": self.autoencoder.encoder, "projection": self.projection,
                "language": self.language.model}  # fmt: skip

    def settings(self, stage: str, *more: object) -> str:
        """Return digest of all that the weights after a stage depend on."""
        config = self.config
        parts: list[object] = [FORMAT, self.corpus.digest, config.seed]
        parts += [config.encoder.model_dump(mode="json"), config.pretrain.model_dump(mode="json")]
        if stage != PRETRAIN:
            model = config.language_model.model_dump(mode="json", exclude={"path"})
            parts += [self.checkpoint.digest, model, config.align.model_dump(mode="json")]
        if stage not in (PRETRAIN, ALIGN):
            parts += [config.notation, config.regress.model_dump(mode="json")]
        return digest_of(*parts, *more)


def digest_of(*parts: object) -> str:
    """Return a digest of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Predicted:
    """Of tested rows."""

    rows: tuple[int, ...]
    texts: tuple[str, ...]
    seconds: tuple[float | None, ...]
    """None: the text is no number (a parse failure)."""


@dataclass(frozen=True)
class Stages:
    """All stages of one configuration."""

    parts: Parts
    progress: Progress
    stop_after: int | None = None
    """See ``Loop``."""

    @property
    def states(self) -> States:
        """Where weights are stored."""
        return States(self.parts.out)

    def run(self, stage: Stage) -> StateCard:
        """Load the stage where it is done; else train what is left of it."""
        if done := ended(stage, self.states):
            return done
        config, loss = self.parts.config, stage.prepare()
        loop = Loop(self.states, config.seed, config.keep_every, self.stop_after)
        with self.progress(stage.name, stage.steps) as advance:
            return loop.train(stage, loss, advance)

    def all(self) -> dict[str, StateCard]:
        """Whatever is left to do of all stages, in order."""
        done = {PRETRAIN: self.pretrain(), ALIGN: self.align(), REGRESS: self.regress()}
        return done | {config.stage: self.adapt(config) for config in self.parts.config.adapt}

    def dealt(self, wanted: AdaptConfig) -> Adaptation:
        """Return an adaptation's rows."""
        place = self.parts.config.adapt.index(wanted)
        return self.parts.corpus.division.adaptations[place]

    def pretrain(self) -> StateCard:
        """Stage 1."""
        parts, wanted = self.parts, self.parts.config.pretrain
        seen, model = parts.corpus.seen, parts.autoencoder

        def loss(places: Sequence[int]) -> Tensor:
            found: Tensor = model.train()(
                parts.corpus.batch([seen[n] for n in places], parts.device)
            )
            return found

        return self.run(Stage(
            PRETRAIN, parts.settings(PRETRAIN), len(seen), wanted.epochs, wanted.batch,
            {"autoencoder": model}, {"autoencoder": wanted.rate}, lambda: loss,
        ))  # fmt: skip

    def align(self) -> StateCard:
        """Stage 2, after stage 1."""
        parts, wanted, seen = self.parts, self.parts.config.align, self.parts.corpus.seen

        def prepare() -> Loss:
            self.pretrain()
            parts.autoencoder.eval()
            parts_of = [seen[start : start + _TOGETHER] for start in range(0, len(seen), _TOGETHER)]
            with torch.no_grad():
                frozen = torch.cat([parts.graph_codes(some) for some in parts_of])

            def loss(places: Sequence[int]) -> Tensor:
                parts.language.train()
                texts = [parts.corpus.summaries[seen[n]] for n in places]
                tokens = parts.projection(frozen[list(places)])
                return parts.language.loss(tokens, [SUMMARISE] * len(places), texts)

            return loss

        return self._language_stage(
            ALIGN, wanted, len(seen), prepare, encoder_rate=0.0, settings=parts.settings(ALIGN)
        )

    def regress(self) -> StateCard:
        """Stage 3, after stage 2."""
        wanted, rows = self.parts.config.regress, self.parts.corpus.division.base.tolist()

        def prepare() -> Loss:
            self.align()
            return self._times(rows)

        return self._language_stage(
            REGRESS, wanted, len(rows), prepare, settings=self.parts.settings(REGRESS)
        )

    def adapt(self, wanted: AdaptConfig) -> StateCard:
        """Stage 4 of one group, after stage 3."""
        rows = self.dealt(wanted).given.tolist()

        def prepare() -> Loss:
            self.regress()
            return self._times(rows)

        settings = self.parts.settings(wanted.stage, wanted.model_dump(mode="json"))
        return self._language_stage(wanted.stage, wanted, len(rows), prepare, settings=settings)

    def _language_stage(
        self,
        name: str,
        wanted: StageConfig,
        examples: int,
        prepare: Callable[[], Loss],
        *,
        settings: str,
        encoder_rate: float | None = None,
    ) -> StateCard:
        rates = {
            "encoder": wanted.encoder_rate if encoder_rate is None else encoder_rate,
            "projection": wanted.encoder_rate, "language": wanted.language_rate,
        }  # fmt: skip
        return self.run(Stage(
            name, settings, examples, wanted.epochs, wanted.batch, self.parts.modules, rates,
            prepare,
        ))  # fmt: skip

    def _times(self, rows: Sequence[int]) -> Loss:
        parts, answers = self.parts, self.parts.answers(rows)

        def loss(places: Sequence[int]) -> Tensor:
            parts.autoencoder.train()
            parts.language.train()
            some = [rows[n] for n in places]
            prompts = [parts.corpus.prompts[row] for row in some]
            return parts.language.loss(parts.tokens(some), prompts, [answers[n] for n in places])

        return loss

    def predict(self, wanted: AdaptConfig, *, before: bool = False) -> Predicted:
        """Answers for the tested rows of a group, after its adaptation or before it."""
        rows, notation = self.dealt(wanted).test.tolist(), self.parts.config.notation
        learnt = () if before else (wanted.model_dump(mode="json"),)
        key = f"{self.parts.settings(wanted.stage, *learnt)}:{wanted.group}"

        def answer() -> list[str]:
            if before:
                self.regress()
            else:
                self.adapt(wanted)
            return self._answer(rows)

        texts = Resume(self.parts.out / "answers").value(key, answer)
        return Predicted(tuple(rows), tuple(texts), tuple(read(t, notation) for t in texts))

    def _answer(self, rows: Sequence[int]) -> list[str]:
        parts = self.parts
        right = parts.answers(parts.corpus.division.base.tolist())
        longest = max(len(parts.language.ids(text)) for text in right) + _SPARE
        parts.language.eval()
        parts.autoencoder.eval()
        texts: list[str] = []
        with self.progress("answering", -(-len(rows) // _TOGETHER)) as advance, torch.no_grad():
            for start in range(0, len(rows), _TOGETHER):
                some = rows[start : start + _TOGETHER]
                prompts = [parts.corpus.prompts[row] for row in some]
                texts += parts.language.answer(parts.tokens(some), prompts, longest)
                advance()
        return texts
