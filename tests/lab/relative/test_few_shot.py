"""Few labels place a platform among the others."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from berth.pilot.errors import UsageError
from berth.predictor.families.relative.rows import Rows
from lab.relative import few_shot
from lab.relative.families import Regression
from lab.relative.transfer import fit_transfer, targets

RIDGE = Regression("ridge", "ridge", lambda _seed: Ridge(0.1), weighed=True)
PLATFORMS = ("cpu", "g1", "g2", "g3", "g4", "new")


def rows(applications: int = 6, each: int = 5, seed: int = 0) -> Rows:
    """Platforms differ by a constant and by how much of a workload's memory share they feel."""
    rng = np.random.default_rng(seed)
    n = applications * each
    work, memory = rng.uniform(5, 15, n), rng.uniform(-1, 1, n)
    offset = np.array([0.0, -1.0, -1.5, -0.5, -1.2, -2.0])
    feel = np.array([0.0, 1.0, -1.0, 0.5, -0.5, 0.8])
    noise = rng.normal(0, 0.02, (n, 6))
    return Rows(
        counters=("instructions", "bytes"),
        values=np.exp(np.column_stack([work, work + memory])),
        platforms=PLATFORMS,
        reference="cpu",
        log_seconds=work[:, None] - 20 + offset + memory[:, None] * feel + noise,
        applications=tuple(f"app{i // each}" for i in range(n)),
        kernels=tuple(f"k{i % each}" for i in range(n)),
        sizes=("1",) * n,
    )


def moved(count: int):
    """The new platform by ``count`` of its workloads, and its predictions of fresh workloads."""
    data, fresh = rows(), rows(seed=1)
    known = data.with_platforms(PLATFORMS[:5])
    labels = np.where(np.isin(np.arange(len(data)), 5 * np.arange(count)), data.log_speedup[:, 5],
                      np.nan)  # fmt: skip
    transfer = fit_transfer(targets(known), labels, data.weights())
    others = targets(fresh.with_platforms(PLATFORMS[:5]))
    return transfer.predict(others), others, fresh.log_speedup[:, 5]


def test_labels_help_and_without_any_it_is_the_mean_platform() -> None:
    few, _, real = moved(6)
    none, others, _ = moved(0)
    assert np.abs(few - real).mean() < 0.5 * np.abs(none - real).mean()
    assert none == pytest.approx(others.mean(axis=1), abs=1e-9)


def test_two_platforms_are_too_few_to_place_another_among() -> None:
    few = targets(rows().with_platforms(("cpu", "g1", "g2")))
    with pytest.raises(UsageError, match="2 platforms are too few"):
        fit_transfer(few, np.full(len(few), np.nan), np.ones(len(few)))


def test_curves_fall_with_labels(monkeypatch) -> None:
    monkeypatch.setattr(few_shot, "DRAWS", 2)
    calls = []
    found = few_shot.few_shot(rows(), RIDGE, seed=0, advance=lambda: calls.append(1))
    curve = found.plain
    assert len(curve.error) == len(few_shot.LABELS)
    assert curve.error[-1] < curve.error[0]
    assert all(a <= b <= c for a, b, c in zip(curve.low, curve.error, curve.high, strict=True))
    assert len(calls) == few_shot.steps(rows())
