"""Pre-train, align, regress, adapt: each stage from the one before, each resumable.

1. ``pretrain``: the encoder restores hidden node features (unlabelled graphs).
2. ``align``: projection and language model learn to summarise graphs; the encoder is frozen.
3. ``regress``: all three learn to write times.
4. ``adapt-*``: all three go on with a few rows of a device or family that is new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor

from berth.pilot.documents import Document, read_json, to_json, write_text
from lab.published.graph_language.config import AdaptConfig, StageConfig
from lab.published.graph_language.examples import Adaptation, Group
from lab.published.graph_language.loop import (
    Advance,
    Loss,
    Plan,
    Trainable,
    ended,
    train,
)
from lab.published.graph_language.numbers import read
from lab.published.graph_language.parts import Parts
from lab.published.graph_language.prompts import SUMMARISE
from lab.published.graph_language.states import StateCard, States

PRETRAIN, ALIGN, REGRESS = "pretrain", "align", "regress"
_SPARE = 4
"""Tokens that an answer may have beyond the longest right one."""
_TOGETHER = 32

Progress = Callable[[str, int], AbstractContextManager[Advance]]


class Answers(Document):
    """``answers-*.json``: what the model wrote for the tested rows, in their order."""

    settings: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Predicted:
    """Of tested rows."""

    rows: tuple[int, ...]
    texts: tuple[str, ...]
    seconds: tuple[float | None, ...]
    """None: the text is no number (a parse failure)."""


def adapted(group: Group) -> str:
    """The name of an adaptation's stage."""
    safe = "".join(mark if mark.isalnum() else "-" for mark in group.value)
    return f"adapt-{group.column}-{safe}"


@dataclass(frozen=True)
class Stages:
    """All stages of one configuration."""

    parts: Parts
    progress: Progress
    stop_after: int | None = None
    """Leave each stage after so many steps, as if interrupted (for trying resumption)."""

    @property
    def states(self) -> States:
        """Where weights are kept."""
        return States(self.parts.out)

    def all(self) -> dict[str, StateCard]:
        """Whatever is left to do of all stages, in order."""
        done = {PRETRAIN: self.pretrain(), ALIGN: self.align(), REGRESS: self.regress()}
        for config, _ in self.adaptations():
            done[adapted(config.group)] = self.adapt(config)
        return done

    def adaptations(self) -> list[tuple[AdaptConfig, Adaptation]]:
        """Each with its rows."""
        return list(
            zip(self.parts.config.adapt, self.parts.corpus.division.adaptations, strict=True)
        )

    def pretrain(self) -> StateCard:
        """Stage 1."""
        parts, wanted = self.parts, self.parts.config.pretrain
        seen, model = parts.corpus.seen, parts.autoencoder

        def loss(places: Sequence[int]) -> Tensor:
            model.train()
            found: Tensor = model(parts.corpus.batch([seen[n] for n in places], parts.device))
            return found

        plan = self._plan(PRETRAIN, len(seen), wanted.epochs, wanted.batch)
        trained = Trainable({"autoencoder": model}, {"autoencoder": wanted.rate})
        return self._train(plan, trained, lambda: loss)

    def align(self) -> StateCard:
        """Stage 2, after stage 1."""
        parts, wanted, seen = self.parts, self.parts.config.align, self.parts.corpus.seen

        def prepare() -> Loss:
            self.pretrain()
            frozen = self._codes(seen)

            def loss(places: Sequence[int]) -> Tensor:
                parts.language.train()
                texts = [parts.corpus.summaries[seen[n]] for n in places]
                tokens = parts.projection(frozen[list(places)])
                return parts.language.loss(tokens, [SUMMARISE] * len(places), texts)

            return loss

        plan = self._plan(ALIGN, len(seen), wanted.epochs, wanted.batch)
        return self._train(plan, self._trained(wanted, encoder_rate=0.0), prepare)

    def regress(self) -> StateCard:
        """Stage 3, after stage 2."""
        wanted, base = self.parts.config.regress, self.parts.corpus.division.base.tolist()

        def prepare() -> Loss:
            self.align()
            return self._times(base)

        plan = self._plan(REGRESS, len(base), wanted.epochs, wanted.batch)
        return self._train(plan, self._trained(wanted, wanted.encoder_rate), prepare)

    def adapt(self, wanted: AdaptConfig) -> StateCard:
        """Stage 4 of one group, after stage 3."""
        given = dict(self.adaptations())[wanted].given.tolist()

        def prepare() -> Loss:
            self.regress()
            return self._times(given)

        plan = self._plan(adapted(wanted.group), len(given), wanted.epochs, wanted.batch, wanted)
        return self._train(plan, self._trained(wanted, wanted.encoder_rate), prepare)

    def predict(self, wanted: AdaptConfig, *, before: bool = False) -> Predicted:
        """Answers for the tested rows of a group, after its adaptation or before it."""
        rows = dict(self.adaptations())[wanted].test.tolist()
        stage = adapted(wanted.group)
        path = self.parts.out / f"answers-{'before-' if before else ''}{stage}.json"
        settings = self.parts.settings(stage, None if before else wanted) + f":{wanted.group}"
        kept = read_json(path, Answers) if path.is_file() else None
        if kept is None or kept.settings != settings or len(kept.texts) != len(rows):
            if before:
                self.regress()
            else:
                self.adapt(wanted)
            kept = Answers(settings=settings, texts=tuple(self._answer(rows)))
            write_text(path, to_json(kept))
        notation = self.parts.config.notation
        return Predicted(tuple(rows), kept.texts, tuple(read(t, notation) for t in kept.texts))

    def _answer(self, rows: Sequence[int]) -> list[str]:
        parts = self.parts
        graphs, prompts = parts.corpus.runs.graph.tolist(), parts.corpus.prompts
        base = parts.corpus.division.base.tolist()
        spare = max(len(parts.language.ids(text)) for text in parts.answers(base)) + _SPARE
        parts.language.eval()
        parts.autoencoder.eval()
        texts: list[str] = []
        with self.progress("answering", -(-len(rows) // _TOGETHER)) as advance:
            for start in range(0, len(rows), _TOGETHER):
                some = rows[start : start + _TOGETHER]
                with torch.no_grad():
                    tokens = parts.tokens([graphs[row] for row in some])
                texts += parts.language.answer(tokens, [prompts[row] for row in some], spare)
                advance()
        return texts

    def _codes(self, graphs: Sequence[int]) -> Tensor:
        """[graphs, codes] of the encoder as it stands."""
        self.parts.autoencoder.eval()
        with torch.no_grad():
            return torch.cat([
                self.parts.graph_codes(graphs[start : start + _TOGETHER])
                for start in range(0, len(graphs), _TOGETHER)
            ])  # fmt: skip

    def _times(self, rows: Sequence[int]) -> Loss:
        parts = self.parts
        graphs, answers = parts.corpus.runs.graph.tolist(), parts.answers(rows)

        def loss(places: Sequence[int]) -> Tensor:
            parts.autoencoder.train()
            parts.language.train()
            some = [rows[n] for n in places]
            return parts.language.loss(
                parts.tokens([graphs[row] for row in some]),
                [parts.corpus.prompts[row] for row in some],
                [answers[n] for n in places],
            )

        return loss

    def _trained(self, wanted: StageConfig, encoder_rate: float) -> Trainable:
        return Trainable(
            self.parts.modules,
            {
                "encoder": encoder_rate,
                "projection": wanted.encoder_rate,
                "language": wanted.language_rate,
            },
        )

    def _plan(
        self,
        stage: str,
        examples: int,
        epochs: int,
        batch: int,
        adapt: AdaptConfig | None = None,
    ) -> Plan:
        config = self.parts.config
        settings = self.parts.settings(stage, adapt)
        return Plan(stage, settings, examples, epochs, batch, config.seed, config.keep_every)

    def _train(self, plan: Plan, trained: Trainable, prepare: Callable[[], Loss]) -> StateCard:
        """Load the stage where it is done; else train what is left of it."""
        if done := ended(plan, trained, self.states):
            return done
        loss = prepare()
        with self.progress(plan.stage, plan.steps) as advance:
            return train(
                plan,
                trained,
                loss,
                states=self.states,
                advance=advance,
                stop_after=self.stop_after,
            )
