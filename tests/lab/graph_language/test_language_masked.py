"""Stage 1: what is hidden, what the decoder may see, and the error by hand."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs the extra `language`")

import torch
from small_models import convolutional, graph_of
from torch_geometric.data import Batch

from lab.published.graph_language.graph_token import (
    MaskedAutoEncoder,
    Masking,
    gin,
    hide,
    scaled_cosine_error,
)
from lab.published.graph_networks.graph_data import data_of
from lab.published.graph_networks.node_features import compact
from lab.published.networks import seeded


def made(width: int = 16) -> MaskedAutoEncoder:
    with seeded(0):
        return MaskedAutoEncoder(gin(2, width), Masking())


def test_the_error_by_hand() -> None:
    guess = torch.tensor([[3.0, 4.0], [1.0, 0.0], [-2.0, 0.0]])
    truth = torch.tensor([[6.0, 8.0], [0.0, 5.0], [1.0, 0.0]])
    # Cosines 1, 0, -1: (0 + 1 + 4) / 3 with power 2, (0 + 1 + 2) / 3 with power 1.
    assert scaled_cosine_error(guess, truth, 2.0).item() == pytest.approx(5 / 3)
    assert scaled_cosine_error(guess, truth, 1.0).item() == pytest.approx(1.0)


def test_half_of_the_nodes_are_hidden_and_a_tenth_of_them_swapped() -> None:
    with seeded(0):
        hidden = hide(400, Masking())
    assert len(hidden.masked) == len(set(hidden.masked.tolist())) == 200
    assert (len(hidden.swapped), len(hidden.donors), len(hidden.blank)) == (20, 20, 180)
    both = {*hidden.blank.tolist(), *hidden.swapped.tolist()}
    assert both == set(hidden.masked.tolist())


def test_one_node_is_always_hidden() -> None:
    assert len(hide(1, Masking(ratio=0.1)).masked) == 1


def test_shown_nodes_keep_their_features_and_hidden_ones_lose_them() -> None:
    model = made()
    features = torch.rand(50, model.mask.shape[1])
    with seeded(1):
        hidden = hide(50, model.masking)
    covered = model.covered(features, hidden)
    shown = sorted(set(range(50)) - set(hidden.masked.tolist()))
    assert torch.equal(covered[shown], features[shown])
    assert torch.equal(covered[hidden.blank], model.mask.expand(len(hidden.blank), -1))
    assert torch.equal(covered[hidden.swapped], features[hidden.donors])


def test_the_decoder_sees_nothing_of_a_hidden_nodes_own_code() -> None:
    model = made()
    codes = torch.rand(10, 16)
    again = model.remasked(codes, torch.tensor([2, 7]))
    assert again[[2, 7]].abs().max() == 0
    assert again[[0, 1, 3]].abs().min(dim=1).values.max() > 0


def test_it_learns_to_restore() -> None:
    model = made()
    graphs = [graph_of(convolutional(blocks, 8), 1) for blocks in (1, 2, 3, 4)]
    batch = Batch.from_data_list([data_of(compact(graph)) for graph in graphs])
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for step in range(30):
        with seeded(step):
            loss = model(batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])
