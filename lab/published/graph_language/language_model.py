"""Stages 2 and 3: a graph's token in the prompt of a causal language model with LoRA.

The input is ``<graph> GraphToken </graph> prompt answer`` (thesis, equation 7.7); the loss is the
cross entropy of the answer and its end alone. The graph token is scaled to the size of the
model's own word vectors, which the thesis does not say.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from berth.pilot.errors import DocumentError
from lab.published.graph_language import checkpoints
from lab.published.graph_language.checkpoints import Checkpoint
from lab.published.graph_language.texts import CLOSE, OPEN

IGNORED = -100
UNENDED = " ..."


@dataclass(frozen=True, slots=True)
class Adapter:
    """LoRA's settings; rank 0: every weight is trained (for small models)."""

    rank: int = 8
    alpha: int = 16
    dropout: float = 0.0


@dataclass(frozen=True, slots=True)
class Laid:
    """A batch as the language model takes it."""

    vectors: Tensor
    """[batch, length, tokens]"""
    attended: Tensor
    """[batch, length]"""
    labels: Tensor
    """[batch, length]: ``IGNORED`` but at the answer and its end."""


class GraphLanguage(nn.Module):
    """A language model that reads graph tokens."""

    def __init__(self, found: Checkpoint, adapter: Adapter, dtype: torch.dtype) -> None:
        super().__init__()
        self.words = checkpoints.tokenizer(found)
        if self.words.eos_token_id is None:
            raise DocumentError(found.folder, "has a tokenizer without an end of text (eos_token)")
        base = checkpoints.causal_model(found, dtype)
        self.model: Any = base if adapter.rank == 0 else _with_lora(base, adapter)
        self.embedding: Any = base.get_input_embeddings()
        self.end = int(self.words.eos_token_id)
        padding = self.words.pad_token_id
        self.padding = self.end if padding is None else int(padding)
        self._ids: dict[str, list[int]] = {}

    @property
    def width(self) -> int:
        """Return the width of a token's vector."""
        return int(self.embedding.weight.shape[1])

    @property
    def token_size(self) -> float:
        """Root mean square of the word vectors."""
        return float(self.embedding.weight.detach().float().pow(2).mean().sqrt())

    def ids(self, text: str) -> list[int]:
        """Tokens of a text, without any that the tokenizer puts around it."""
        if text not in self._ids:
            self._ids[text] = list(self.words(text, add_special_tokens=False).input_ids)
        return self._ids[text]

    def lay(self, graphs: Tensor, prompts: Sequence[str], answers: Sequence[str] | None) -> Laid:
        """Prompts with their graph tokens and answers; padded right, without answers left."""
        before, rows = self.ids(OPEN), []
        for place, prompt in enumerate(prompts):
            head = [*before, self.padding, *self.ids(CLOSE), *self.ids(prompt)]
            tail = [] if answers is None else [*self.ids(answers[place]), self.end]
            rows.append((head, tail))
        length = max(len(head) + len(tail) for head, tail in rows)
        ids = torch.full((len(rows), length), self.padding)
        labels = torch.full((len(rows), length), IGNORED)
        attended = torch.zeros((len(rows), length), dtype=torch.long)
        at = []
        for place, (head, tail) in enumerate(rows):
            whole = [*head, *tail]
            start = length - len(whole) if answers is None else 0
            ids[place, start : start + len(whole)] = torch.tensor(whole)
            attended[place, start : start + len(whole)] = 1
            labels[place, start + len(head) : start + len(whole)] = torch.tensor(tail).long()
            at.append(start + len(before))
        device = graphs.device
        vectors = self.embedding(ids.to(device))
        places = torch.tensor(at, device=device)
        mine = torch.arange(length, device=device)[None, :] == places[:, None]
        tokens = graphs.to(vectors.dtype)[:, None, :].expand(-1, length, -1)
        vectors = torch.where(mine[:, :, None], tokens, vectors)
        return Laid(vectors, attended.to(device), labels.to(device))

    def loss(self, graphs: Tensor, prompts: Sequence[str], answers: Sequence[str]) -> Tensor:
        """Return mean cross entropy of the answers' tokens; ``graphs``: [batch, tokens]."""
        laid = self.lay(graphs, prompts, answers)
        kept = int((laid.labels != IGNORED).any(dim=0).nonzero().min())
        logits = self.model(
            inputs_embeds=laid.vectors, attention_mask=laid.attended,
            logits_to_keep=laid.labels.shape[1] - kept + 1, use_cache=False,
        ).logits  # fmt: skip
        guess = logits[:, :-1].float().reshape(-1, logits.shape[-1])
        wanted = laid.labels[:, kept:].reshape(-1)
        return functional.cross_entropy(guess, wanted, ignore_index=IGNORED)

    @torch.no_grad()
    def answer(self, graphs: Tensor, prompts: Sequence[str], longest: int) -> list[str]:
        """Return the likeliest text token by token, at most ``longest`` of them."""
        laid = self.lay(graphs, prompts, None)
        settings = checkpoints.quiet_transformers().GenerationConfig(
            max_new_tokens=longest, do_sample=False, num_beams=1, eos_token_id=self.end,
            pad_token_id=self.padding,
        )  # fmt: skip
        written = self.model.generate(
            inputs_embeds=laid.vectors, attention_mask=laid.attended, generation_config=settings
        )
        return [self._text(row) for row in written.tolist()]

    def _text(self, ids: Sequence[int]) -> str:
        """Return all that was written before the end; with a mark where there was none."""
        ended = self.end in ids
        kept = ids[: ids.index(self.end)] if ended else ids
        text = str(self.words.decode(kept, skip_special_tokens=False))
        return text if ended else text + UNENDED


def _with_lora(base: Any, adapter: Adapter) -> Any:
    import peft  # noqa: PLC0415 - the extra `language`

    settings = peft.LoraConfig(
        r=adapter.rank, lora_alpha=adapter.alpha, lora_dropout=adapter.dropout,
        target_modules="all-linear", task_type="CAUSAL_LM",
    )  # fmt: skip
    with warnings.catch_warnings():
        # peft asks transformers for a name that the next major version drops.
        warnings.simplefilter("ignore", FutureWarning)
        return peft.get_peft_model(base, settings)
