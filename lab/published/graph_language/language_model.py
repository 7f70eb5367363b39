"""Stages 2 and 3: a graph's token in the prompt of a causal language model with LoRA.

The input is ``<graph> GraphToken </graph> prompt answer`` (thesis, equation 7.7). The loss is the
cross entropy of the answer and its end alone. The graph token is scaled to the size of the model's
own word vectors, which the thesis does not say.
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
from lab.published.graph_language.language_config import LanguageModelConfig
from lab.published.graph_language.texts import CLOSE, OPEN

IGNORED = -100
UNENDED = " ..."
"""Follows an answer that was cut off before its end."""


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """A batch as the language model takes it."""

    vectors: Tensor
    """[rows, length, token width]"""
    attended: Tensor
    """[rows, length] 1, or 0 for padding."""
    labels: Tensor
    """[rows, length] tokens of the answer and its end; ``IGNORED`` everywhere else."""


class GraphLanguage(nn.Module):
    """A language model that reads graph tokens."""

    def __init__(self, source: Checkpoint, settings: LanguageModelConfig) -> None:
        super().__init__()
        self.words = checkpoints.tokenizer(source)
        if self.words.eos_token_id is None:
            raise DocumentError(source.folder, "has a tokenizer without an end of text (eos_token)")
        base = checkpoints.causal_model(source, getattr(torch, settings.precision))
        self.model: Any = base if settings.rank == 0 else _with_lora(base, settings)
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
        """Return the root mean square of the word vectors."""
        return float(self.embedding.weight.detach().float().pow(2).mean().sqrt())

    def ids(self, text: str) -> list[int]:
        """Return a text's tokens, without any that the tokenizer puts around it."""
        if text not in self._ids:
            self._ids[text] = list(self.words(text, add_special_tokens=False).input_ids)
        return self._ids[text]

    def tokens(
        self, graphs: Tensor, prompts: Sequence[str], answers: Sequence[str] | None
    ) -> TokenBatch:
        """Lay out graph tokens [rows, token width], prompts and answers.

        Rows are padded on the right, or on the left where there are no answers.
        """
        before, rows = self.ids(OPEN), []
        for place, prompt in enumerate(prompts):
            head = [*before, self.padding, *self.ids(CLOSE), *self.ids(prompt)]
            tail = [] if answers is None else [*self.ids(answers[place]), self.end]
            rows.append((head, tail))
        length = max(len(head) + len(tail) for head, tail in rows)
        ids = torch.full((len(rows), length), self.padding)
        labels = torch.full((len(rows), length), IGNORED)
        attended = torch.zeros((len(rows), length), dtype=torch.long)
        graph_places = []
        for place, (head, tail) in enumerate(rows):
            used = len(head) + len(tail)
            start = length - used if answers is None else 0
            ids[place, start : start + used] = torch.tensor([*head, *tail])
            attended[place, start : start + used] = 1
            labels[place, start + len(head) : start + used] = torch.tensor(tail).long()
            graph_places.append(start + len(before))
        device = graphs.device
        vectors = self.embedding(ids.to(device))
        is_graph = (
            torch.arange(length, device=device)[None, :]
            == torch.tensor(graph_places, device=device)[:, None]
        )
        graph_vectors = graphs.to(vectors.dtype)[:, None, :].expand(-1, length, -1)
        vectors = torch.where(is_graph[:, :, None], graph_vectors, vectors)
        return TokenBatch(vectors, attended.to(device), labels.to(device))

    def loss(self, graphs: Tensor, prompts: Sequence[str], answers: Sequence[str]) -> Tensor:
        """Return the mean cross entropy of the answers' tokens; ``graphs`` [rows, token width]."""
        batch = self.tokens(graphs, prompts, answers)
        first = int((batch.labels != IGNORED).any(dim=0).nonzero().min())
        logits = self.model(
            inputs_embeds=batch.vectors, attention_mask=batch.attended,
            logits_to_keep=batch.labels.shape[1] - first + 1, use_cache=False,
        ).logits  # fmt: skip
        guess = logits[:, :-1].float().reshape(-1, logits.shape[-1])
        expected = batch.labels[:, first:].reshape(-1)
        return functional.cross_entropy(guess, expected, ignore_index=IGNORED)

    @torch.no_grad()
    def answer(self, graphs: Tensor, prompts: Sequence[str], most_tokens: int) -> list[str]:
        """Return the likeliest text of each row, token by token."""
        batch = self.tokens(graphs, prompts, None)
        settings = checkpoints.quiet_transformers().GenerationConfig(
            max_new_tokens=most_tokens, do_sample=False, num_beams=1, eos_token_id=self.end,
            pad_token_id=self.padding,
        )  # fmt: skip
        written = self.model.generate(
            inputs_embeds=batch.vectors, attention_mask=batch.attended, generation_config=settings
        )
        return [self._text(row) for row in written.tolist()]

    def _text(self, ids: Sequence[int]) -> str:
        """Return what was written before the end, with ``UNENDED`` where there is no end."""
        if self.end not in ids:
            return str(self.words.decode(ids, skip_special_tokens=False)) + UNENDED
        return str(self.words.decode(ids[: ids.index(self.end)], skip_special_tokens=False))


def _with_lora(base: Any, settings: LanguageModelConfig) -> Any:
    import peft  # noqa: PLC0415 - the extra `language`

    lora = peft.LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, lora_dropout=settings.dropout,
        target_modules="all-linear", task_type="CAUSAL_LM",
    )  # fmt: skip
    with warnings.catch_warnings():
        # peft asks transformers for a name that the next major version drops.
        warnings.simplefilter("ignore", FutureWarning)
        return peft.get_peft_model(base, lora)
