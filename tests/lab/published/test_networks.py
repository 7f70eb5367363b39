"""The parts of VAE + DNN and xAMM: sparsemax, the calibrated decoder, standardising, ONNX."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra `deep`")

from berth.pilot.errors import BerthError  # noqa: E402
from lab.ground.onnx_export import run, session_of  # noqa: E402
from lab.published.networks import (  # noqa: E402  # noqa: E402
    Standardise,
    apply,
    check_agreement,
    masked_error,
    perceptron,
    seeded,
    tensor,
    to_onnx,
)
from lab.published.vae.network import (  # noqa: E402
    CalibratedVae,
    divergence,
    reconstruction_loss,
)
from lab.published.xamm.embedding import (  # noqa: E402
    Attention,
    SequentialAttention,
    sparsemax,
)


def test_sparsemax_is_the_nearest_point_of_the_simplex() -> None:
    scores = np.random.default_rng(0).normal(0, 2, (50, 6))
    found = sparsemax(torch.from_numpy(scores)).numpy()
    assert (found >= 0).all()
    assert found.sum(axis=1) == pytest.approx(np.ones(50))
    assert (found == 0).any()
    other = np.random.default_rng(1).dirichlet(np.ones(6), (2000,))
    for row, point in zip(scores, found, strict=True):
        assert ((row - point) ** 2).sum() <= ((row - other) ** 2).sum(axis=1).min()


def test_sparsemax_of_equal_scores_is_even_and_of_a_clear_winner_is_one() -> None:
    found = sparsemax(torch.tensor([[1.0, 1.0, 1.0, 1.0], [9.0, 0.0, 0.0, 0.0]]))
    assert found.tolist() == [[0.25] * 4, [1, 0, 0, 0]]


def test_the_decoders_variance_is_the_analytic_optimum() -> None:
    random = np.random.default_rng(0)
    rows, rebuilt = random.normal(size=(40, 5)), random.normal(size=(40, 5))
    found = float(reconstruction_loss(tensor(rows), tensor(rebuilt)))
    errors = ((rows - rebuilt) ** 2).sum(axis=1)
    by_sigma = [
        (errors / (2 * s**2)).mean() + 5 * np.log(s) + 2.5 * np.log(2 * np.pi)
        for s in np.linspace(0.2, 4, 2000)
    ]
    assert found == pytest.approx(min(by_sigma), abs=2e-3)


def test_a_perfect_reconstruction_has_a_finite_likelihood() -> None:
    rows = tensor(np.ones((3, 2))).requires_grad_()
    loss = reconstruction_loss(rows, rows.detach())
    torch.autograd.backward(loss)
    assert torch.isfinite(loss)
    assert torch.isfinite(rows.grad).all()


def test_the_divergence_of_the_standard_normal_from_itself_is_none() -> None:
    zeros = torch.zeros(4, 3)
    assert float(divergence(zeros, zeros)) == 0
    assert float(divergence(zeros + 1, zeros)) == pytest.approx(1.5)


def test_missing_values_become_the_mean_and_unseen_ones_stay_within_what_was_seen() -> None:
    standardise = Standardise(np.array([[0.0, 7.0, np.nan], [2.0, 7.0, np.nan]]))
    asked = tensor(np.array([[np.nan, 8.0, 1.0], [1e9, np.nan, np.nan], [-1e9, 7.0, 3.0]]))
    assert standardise(asked).tolist() == [[0, 0, 0], [1, 0, 0], [-1, 0, 0]]


def test_unknown_labels_do_not_count() -> None:
    labels = torch.tensor([[1.0, torch.nan], [torch.nan, 3.0]])
    assert float(masked_error(torch.zeros(2, 2), labels)) == 5
    assert float(masked_error(torch.zeros(2, 2), labels * torch.nan)) == 0


def test_the_same_seed_gives_the_same_network_and_leaves_torch_as_it_was() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    made = []
    for _ in range(2):
        with seeded(3):
            made.append(perceptron((4, 8, 2))[0].weight.tolist())
    assert made[0] == made[1]
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("kind", ["attention", "vae", "standardise"])
def test_onnx_says_what_the_network_says(kind: str) -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(300, 7))
    with seeded(0):
        network = {
            "attention": lambda: SequentialAttention(7, Attention()),
            "vae": lambda: CalibratedVae(7, (16,), 3),
            "standardise": lambda: Standardise(rows),
        }[kind]()
    if kind == "standardise":
        rows[random.random(rows.shape) < 0.1] = np.nan
    onnx = to_onnx(network, 7)
    assert check_agreement(onnx, network, rows) <= 1e-4
    assert (
        run(session_of(onnx), {"features": rows[:1].astype(np.float32)}).shape
        == apply(network, rows[:1]).shape
    )


def test_a_conversion_that_says_another_thing_is_refused() -> None:
    with seeded(0):
        first, second = perceptron((3, 2)), perceptron((3, 2))
    with pytest.raises(BerthError, match="nothing was written"):
        check_agreement(to_onnx(first, 3), second, np.ones((4, 3)))


def test_a_network_steeper_than_float32_can_follow_is_converted_all_the_same() -> None:
    rows = np.random.default_rng(0).normal(20, 1, (89, 3))
    with seeded(0):
        network = torch.nn.Sequential(Standardise(rows), SequentialAttention(3, Attention())).eval()
    with torch.no_grad():
        for layer in (m for m in network.modules() if isinstance(m, torch.nn.Linear)):
            layer.weight *= 5
        single = network(tensor(rows)).numpy()
    exact = apply(network, rows)
    assert np.abs(single - exact).max() > 1e-4  # what a check in float32 would have to let pass
    assert check_agreement(to_onnx(network, 3), network, rows) <= 1e-6 * np.abs(exact).max()
    assert next(network.parameters()).dtype is torch.float32


def test_attention_masks_are_weights_over_features() -> None:
    with seeded(0):
        network = SequentialAttention(5, Attention())
        embedding, mask, entropy = network.eval().attended(torch.randn(20, 5))
    assert embedding.shape == (20, Attention().width)
    assert (embedding >= 0).all()
    assert mask.sum(dim=1).tolist() == pytest.approx([1.0] * 20)
    assert entropy.item() >= 0
