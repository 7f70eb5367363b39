"""The networks of the pipeline, made from a configuration and a seed: encoder, projection, LM."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from lab.published.graph_language import pretrained
from lab.published.graph_language.config import AdaptConfig, LanguageConfig
from lab.published.graph_language.corpus import STATICS, Corpus
from lab.published.graph_language.loop import draw
from lab.published.graph_language.masked import (
    MaskedAutoEncoder,
    Masking,
    gin,
)
from lab.published.graph_language.model import Adapter, GraphLanguage, Projection
from lab.published.graph_language.numbers import write
from lab.published.graph_language.pretrained import Checkpoint
from lab.published.graph_language.prompts import SUMMARISE
from lab.published.graph_language.random_checkpoint import RandomModel, random_folder
from lab.published.graph_language.regressor import codes
from lab.published.relative_networks.seeded import seeded

FORMAT = 1
"""Of kept states: another number makes old ones unreadable."""


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
        """Where everything is kept."""
        return self.base / self.config.out

    @cached_property
    def autoencoder(self) -> MaskedAutoEncoder:
        """Stage 1's; its ``encoder`` is that of all later stages."""
        wanted = self.config.pretrain
        with seeded(draw(self.config.seed, "encoder")):
            made = MaskedAutoEncoder(
                gin(self.config.encoder.layers, self.config.encoder.width),
                Masking(wanted.mask, wanted.replaced, wanted.power),
            )
        return made.to(self.device)

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The language model's folder, checked; a random one is written first. DocumentError."""
        wanted = self.config.language_model
        if wanted.path is not None:
            return pretrained.checkpoint(self.base / wanted.path)
        texts = [*self.corpus.summaries, *self.corpus.prompts, SUMMARISE]
        size = wanted.random or RandomModel()
        seed = draw(self.config.seed, "random")
        return pretrained.checkpoint(random_folder(self.out, size, texts, seed))

    @cached_property
    def language(self) -> GraphLanguage:
        """The language model with its adapter."""
        wanted = self.config.language_model
        adapter = Adapter(wanted.rank, wanted.alpha, wanted.dropout)
        with seeded(draw(self.config.seed, "adapter")):
            made = GraphLanguage(self.checkpoint, adapter, getattr(torch, wanted.precision))
        return made.to(self.device)

    @cached_property
    def projection(self) -> Projection:
        """From a graph's code to a token."""
        statics = STATICS if self.config.encoder.statics else 0
        with seeded(draw(self.config.seed, "projection")):
            made = Projection(
                self.config.encoder.width + statics, self.language.width, self.language.token_size
            )
        return made.to(self.device)

    def tokens(self, graphs: Sequence[int]) -> Tensor:
        """[graphs, tokens] through encoder and projection as they stand."""
        distinct = sorted(set(graphs))
        place = {graph: n for n, graph in enumerate(distinct)}
        known = self.graph_codes(distinct)
        projected: Tensor = self.projection(known[[place[graph] for graph in graphs]])
        return projected

    def graph_codes(self, graphs: Sequence[int]) -> Tensor:
        """[graphs, codes] what the projection takes."""
        found = codes(self.autoencoder.encoder, self.corpus.batch(graphs, self.device))
        if not self.config.encoder.statics:
            return found
        return torch.cat([found, self.corpus.statics[list(graphs)].to(self.device)], dim=1)

    def answers(self, rows: Sequence[int]) -> list[str]:
        """The times of these rows as text."""
        seconds = self.corpus.runs.seconds
        return [write(float(seconds[row]), self.config.notation) for row in rows]

    @cached_property
    def modules(self) -> dict[str, nn.Module]:
        """What stage 3 and adaptations train, by the name they are kept under."""
        return {
            "encoder": self.autoencoder.encoder,
            "projection": self.projection,
            "language": self.language.model,
        }

    def settings(self, stage: str, adapt: AdaptConfig | None = None) -> str:
        """Digest of all that the weights after a stage depend on."""
        config = self.config
        parts: list[object] = [FORMAT, self.corpus.digest, config.seed]
        parts += [config.encoder.model_dump(mode="json"), config.pretrain.model_dump(mode="json")]
        if stage != "pretrain":
            parts += [
                self.checkpoint.digest,
                config.language_model.model_dump(mode="json", exclude={"path"}),
                config.align.model_dump(mode="json"),
            ]
        if stage not in ("pretrain", "align"):
            parts += [config.notation, config.regress.model_dump(mode="json")]
        if adapt is not None:
            parts.append(adapt.model_dump(mode="json"))
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
