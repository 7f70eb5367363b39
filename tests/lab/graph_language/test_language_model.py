"""The graph token stands where it should, gradients flow, LoRA trains its own weights alone."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs the extra `language`")

import torch

from lab.published.graph_language import checkpoints
from lab.published.graph_language.graph_token import Projection
from lab.published.graph_language.language_config import LanguageModelConfig
from lab.published.graph_language.language_model import (
    IGNORED,
    UNENDED,
    GraphLanguage,
)
from lab.published.networks import seeded

PROMPTS, ANSWERS = ["time on 3090:", "time on 3090, batch 1:"], ["4308", "12"]


def settings(rank: int) -> LanguageModelConfig:
    return LanguageModelConfig(path="here", rank=rank)


@pytest.fixture
def language(checkpoint_folder) -> GraphLanguage:
    found = checkpoints.checkpoint(checkpoint_folder)
    with seeded(0):
        return GraphLanguage(found, settings(4))


def test_open_graph_close_prompt_answer_end(language) -> None:
    graphs = torch.arange(32.0).reshape(2, 16)
    batch = language.tokens(graphs, PROMPTS, ANSWERS)
    for row, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        head = [*language.ids("<graph>"), -1, *language.ids("</graph>"), *language.ids(prompt)]
        tail = [*language.ids(answer), language.end]
        whole = [*head, *tail]
        assert batch.attended[row].tolist() == [1] * len(whole) + [0] * (
            batch.labels.shape[1] - len(whole)
        )
        assert batch.labels[row, : len(head)].eq(IGNORED).all()
        assert batch.labels[row, len(head) : len(whole)].tolist() == tail
        assert batch.labels[row, len(whole) :].eq(IGNORED).all()
        at = head.index(-1)
        assert torch.equal(batch.vectors[row, at], graphs[row])
        for place, token in enumerate(whole):
            if place != at:
                assert torch.equal(batch.vectors[row, place], language.embedding.weight[token])


def test_without_answers_prompts_end_together(language) -> None:
    batch = language.tokens(torch.ones(2, 16), PROMPTS, None)
    assert batch.attended[:, -1].tolist() == [1, 1]
    assert batch.attended[0, 0] == 0
    assert batch.labels.eq(IGNORED).all()
    shorter = len(language.ids(PROMPTS[0])) + len(language.ids("</graph>")) + 1
    assert torch.equal(batch.vectors[0, -shorter], torch.ones(16))


def test_the_loss_is_that_of_the_answer_alone(language) -> None:
    """The library's own loss over the same labels, which looks at every place."""
    language.eval()
    graphs = torch.rand(2, 16)
    batch = language.tokens(graphs, PROMPTS, ANSWERS)
    whole = language.model(
        inputs_embeds=batch.vectors, attention_mask=batch.attended, labels=batch.labels
    )
    assert language.loss(graphs, PROMPTS, ANSWERS).item() == pytest.approx(
        whole.loss.item(), rel=1e-5
    )


def test_gradients_reach_the_graph_token_and_the_projection(language) -> None:
    projection = Projection(8, language.width, language.token_size)
    codes = torch.rand(2, 8, requires_grad=True)
    language.loss(projection(codes), PROMPTS, ANSWERS).backward()
    assert codes.grad is not None
    assert codes.grad.abs().sum() > 0
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in projection.parameters())


def test_the_graph_token_is_as_large_as_a_word(language) -> None:
    token = Projection(8, language.width, language.token_size)(torch.rand(5, 8))
    sizes = token.pow(2).mean(dim=1).sqrt()
    assert sizes.tolist() == pytest.approx([language.token_size] * 5, rel=1e-2)


def test_lora_has_its_own_weights_and_only_they_are_trained(language) -> None:
    trained = {n: p for n, p in language.named_parameters() if p.requires_grad}
    kinds = ("q", "k", "v", "o", "gate", "up", "down")
    assert len(trained) == 2 * len(kinds) * 2  # A and B of seven projections in two layers
    assert all(".lora_A." in name or ".lora_B." in name for name in trained)
    width, inner, rank = 16, 64, 4
    per_layer = 4 * rank * (width + width) + 3 * rank * (width + inner)
    assert sum(p.numel() for p in trained.values()) == 2 * per_layer


def test_a_step_moves_lora_and_leaves_the_checkpoint_as_it_was(language) -> None:
    before = {name: value.clone() for name, value in language.named_parameters()}
    optimiser = torch.optim.Adam([p for p in language.parameters() if p.requires_grad], 1e-2)
    language.loss(torch.rand(2, 16), PROMPTS, ANSWERS).backward()
    optimiser.step()
    moved = {n for n, value in language.named_parameters() if not torch.equal(value, before[n])}
    assert moved
    assert all(".lora_" in name for name in moved)


def test_rank_0_trains_every_weight(checkpoint_folder) -> None:
    found = checkpoints.checkpoint(checkpoint_folder)
    whole = GraphLanguage(found, settings(0))
    assert all(weight.requires_grad for weight in whole.parameters())


def test_another_graph_token_gives_another_answer(checkpoint_folder) -> None:
    """Trained on two graphs with one prompt, it tells them apart by their tokens alone."""
    found = checkpoints.checkpoint(checkpoint_folder)
    with seeded(0):
        language = GraphLanguage(found, settings(0))
        graphs = torch.randn(2, 16)
    optimiser = torch.optim.Adam(language.parameters(), 1e-2)
    for _ in range(40):
        loss = language.loss(graphs, ["time:"] * 2, ["4308", "5121"])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    language.eval()
    answers = language.answer(graphs, ["time:"] * 2, 8)
    assert [text.replace(" ", "") for text in answers] == ["4308", "5121"]
    cut = language.answer(graphs, ["time:"] * 2, 2)
    assert all(text.endswith(UNENDED) for text in cut), "an answer cut short is marked"
