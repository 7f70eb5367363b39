"""Widths of intervals, learnt from applications that the model had not seen."""

from __future__ import annotations

import numpy as np
import pytest

from berth.predictor.families.relative.rows import Rows
from lab.relative.family import LEAVE_ONE_APPLICATION_OUT, held_out
from lab.relative.figures import MeanSpeedup
from lab.relative.widths import log_widths, next_application_quantile

PLATFORMS = ("cpu", "gpu", "gpu2", "slice")


def rows(applications: int = 8, each: int = 4, seed: int = 0) -> Rows:
    """Each application shifts both GPUs together; rows of an application scatter a little."""
    rng = np.random.default_rng(seed)
    n = applications * each
    work = rng.uniform(5, 15, n)
    shift = np.repeat(rng.normal(0, 1.0, applications), each)
    own = rng.normal(0, 0.1, (n, 4))
    moved = np.column_stack([np.zeros(n), shift, shift, np.zeros(n)])
    return Rows(
        counters=("instructions", "bytes"),
        values=np.exp(np.column_stack([work, work + rng.normal(0, 0.2, n)])),
        platforms=PLATFORMS,
        reference="cpu",
        log_seconds=work[:, None] - 20 - np.array([0.0, 0.5, 0.6, 0.2]) + moved + own,
        applications=tuple(f"app{i // each:02d}" for i in range(n)),
        kernels=("kernel",) * n,
        sizes=tuple(str(i % each) for i in range(n)),
    )


def predicted(data: Rows) -> np.ndarray:
    return held_out(data, MeanSpeedup(), LEAVE_ONE_APPLICATION_OUT, seed=0)


def test_intervals_hold_nine_in_ten_of_other_applications() -> None:
    fresh = rows(applications=40, seed=99)
    off = np.abs(fresh.log_seconds - predicted(fresh))[:, 1:]
    inside = []
    for seed in range(10):
        data = rows(seed=seed)
        learnt = log_widths(data, predicted(data))
        inside.append((off <= np.array([learnt[name] for name in PLATFORMS[1:]])).mean())
    assert 0.85 < np.mean(inside) <= 0.99


def test_steady_platforms_get_narrower_intervals_and_the_reference_none() -> None:
    learnt = log_widths(rows(), predicted(rows()))
    assert 0 == learnt["cpu"] < learnt["slice"] < learnt["gpu"]


@pytest.mark.parametrize("labelled", [3, 0])
def test_a_platform_with_few_or_no_labels_has_a_width(labelled: int) -> None:
    data = rows()
    guess = predicted(data)
    data.log_seconds[labelled:, 3] = np.nan
    learnt = log_widths(data, guess)
    assert np.isfinite(list(learnt.values())).all()
    assert learnt["slice"] > 0


def test_a_lone_score_per_application_gives_a_finite_quantile() -> None:
    scores = np.array([[1.0], [1.2], [0.9], [1.1]])
    found = next_application_quantile(scores, ["a", "b", "c", "d"])
    assert 1.1 < found < 3.0


def test_the_more_applications_differ_the_wider_the_interval() -> None:
    names = [f"a{i // 3}" for i in range(18)]
    alike = np.tile([[0.5], [1.0], [1.5]], (6, 1))
    apart = alike * np.repeat([0.1, 0.3, 1, 1, 3, 10], 3)[:, None]
    assert next_application_quantile(apart, names) > 2 * next_application_quantile(alike, names)
