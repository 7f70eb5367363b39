"""Intervals, covariances and scores learnt from applications that the model had not seen."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from berth.pilot.errors import UsageError
from berth.predictor.families.relative.rows import Rows
from berth.predictor.families.relative.trust import covariance
from berth.predictor.learning.relative.family import LEAVE_ONE_APPLICATION_OUT, held_out
from berth.predictor.learning.relative.trust import (
    fit_residuals,
    fit_trust,
    next_application_quantile,
)
from lab.ground.resume import Resume
from lab.relative.families import MeanSpeedup, Regression
from lab.relative.nested import fits, nested
from lab.relative.probing import WAYS, probing_figures
from lab.relative.uncertainty import (
    SCORES,
    UncertaintyResult,
    abstention_figures,
    area,
    interval_figures,
    sections_of,
)

PLATFORMS = ("cpu", "gpu", "gpu2", "slice")
RIDGE = Regression("ridge", "ridge", lambda _seed: Ridge(1.0), weighed=True)


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


@pytest.fixture(scope="module")
def folds():
    return nested(rows(), RIDGE, seed=0)


def test_inner_predictions_never_saw_the_held_application(folds) -> None:
    data, changed = rows(), rows()
    names = np.array(data.applications)
    changed.log_seconds[names == "app03", 1:] += 5.0
    again = nested(changed, RIDGE, seed=0)
    before = next(f for f in folds if f.application == "app03")
    after = next(f for f in again if f.application == "app03")
    assert after.log_inner == pytest.approx(before.log_inner)
    assert after.log_predicted == pytest.approx(before.log_predicted)


def test_a_pair_of_applications_is_fitted_once(tmp_path) -> None:
    data, calls = rows(applications=5, each=2), []
    nested(data, RIDGE, seed=0, resume=Resume(tmp_path), advance=lambda: calls.append(1))
    assert len(calls) == fits(data) == 15
    assert len(list(tmp_path.glob("*.npy"))) == 15


def test_intervals_hold_on_applications_not_seen(folds) -> None:
    found = interval_figures(rows(), folds)
    assert found.coverage_low <= found.coverage <= found.coverage_high
    assert 0.8 < found.coverage <= 1.0
    assert set(found.by_platform) == set(PLATFORMS[1:])


def test_steady_platforms_get_narrower_intervals(folds) -> None:
    widths = folds[0].trust.log_widths(folds[0].asked, folds[0].log_predicted)
    assert widths[:, 3].mean() < widths[:, 1].mean()
    assert (widths[:, 0] == 0).all()


def test_where_difficulty_differs_one_width_scores_worse(folds) -> None:
    found = interval_figures(rows(), folds)
    assert found.winkler < found.winkler_constant


def test_platforms_that_err_together_are_learnt_to_do_so(folds) -> None:
    joint = folds[0].trust.joints(folds[0].asked, folds[0].log_predicted)[0]
    spread = joint.deviation
    assert joint.covariance[1, 2] > 0.4 * spread[1] * spread[2]
    assert abs(joint.covariance[1, 3]) < 0.5 * spread[1] * spread[3]


def test_a_probed_time_corrects_its_neighbour(folds) -> None:
    fold, trust = folds[0], folds[0].trust
    off, corrected = [], []
    plain = trust.joints(fold.asked, fold.log_predicted)
    probed = trust.joints(fold.held.knowing(["gpu"]), fold.log_predicted)
    for before, after, real in zip(plain, probed, fold.held.log_seconds, strict=True):
        assert after.mean[1] == real[1]
        off.append(abs(before.mean[2] - real[2]))
        corrected.append(abs(after.mean[2] - real[2]))
    assert np.mean(corrected) < np.mean(off)


def test_advised_probes_leave_less_to_regret(folds) -> None:
    found = probing_figures(rows(), folds)
    assert set(found.regret) == set(WAYS)
    assert found.regret["two, advised at once"] <= found.regret["one, advised"] + 0.02
    assert found.regret["one, advised"] < found.regret["no probe"]
    assert found.expected_two <= found.expected_one <= found.expected_now


def test_every_score_is_ranked_against_training_applications(folds) -> None:
    found = abstention_figures(rows(), folds)
    assert [f.score for f in found] == list(SCORES)
    assert all(0 <= f.answered <= 1 for f in found)


def test_every_table_has_a_cell_for_each_title(folds) -> None:
    result = UncertaintyResult(
        "ridge", "", interval_figures(rows(), folds), tuple(abstention_figures(rows(), folds)),
        probing_figures(rows(), folds),
    )  # fmt: skip
    for section in sections_of([result]):
        assert {len(row) for row in section.rows} == {len(section.header)}


def test_a_score_that_knows_the_risk_has_the_least_area() -> None:
    risk, weights = np.array([0.0, 1.0, 2.0, 3.0]), np.ones(4)
    assert area(risk, risk, weights) < risk.mean() < area(-risk, risk, weights)


def test_a_lone_score_per_application_gives_a_finite_quantile() -> None:
    scores = np.array([[1.0], [1.2], [0.9], [1.1]])
    found = next_application_quantile(scores, ["a", "b", "c", "d"])
    assert 1.1 < found < 3.0


def test_the_more_applications_differ_the_wider_the_interval() -> None:
    names = [f"a{i // 3}" for i in range(18)]
    alike = np.tile([[0.5], [1.0], [1.5]], (6, 1))
    apart = alike * np.repeat([0.1, 0.3, 1, 1, 3, 10], 3)[:, None]
    assert next_application_quantile(apart, names) > 2 * next_application_quantile(alike, names)


def test_few_applications_are_refused() -> None:
    data = rows(applications=3)
    with pytest.raises(UsageError, match="3 applications are too few"):
        fit_trust(data, held_out(data, MeanSpeedup(), LEAVE_ONE_APPLICATION_OUT, seed=0))


def test_a_platform_with_few_labels_is_served_too() -> None:
    data = rows()
    guess = held_out(data, MeanSpeedup(), LEAVE_ONE_APPLICATION_OUT, seed=0)
    data.log_seconds[3:, 3] = np.nan
    trust = fit_residuals(data, guess)
    assert np.isfinite(trust.log_widths(data.knowing(), guess)).all()
    assert all(np.isfinite(j.covariance).all() for j in trust.joints(data.knowing(), guess))


def test_a_platform_without_labels_has_the_mean_variance_and_no_correlation() -> None:
    residuals = np.array([[1.0, -1.0, np.nan], [-1.0, 1.0, np.nan]])
    found = covariance(residuals, np.ones(2), 0.0)
    assert found == pytest.approx(np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 1.0]]))
