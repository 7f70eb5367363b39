"""Few labels place a platform among the others; a committee is the mean of its members."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from berth.pilot.errors import UsageError
from berth.predictor.families.relative.rows import Rows
from lab.relative import few_shot
from lab.relative.baselines import Always, Regression
from lab.relative.committee import Committee
from lab.relative.families import Entry
from lab.relative.transfer import FewShot, fit_transfer, targets

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


def labelled(count: int) -> Rows:
    data = rows()
    times = data.log_seconds.copy()
    times[np.arange(len(data)) % 5 != 0, 5] = np.nan
    told = np.flatnonzero(np.isfinite(times[:, 5]))
    times[told[count:], 5] = np.nan
    return replace(data, log_seconds=times)


def error(count: int) -> float:
    fitted = FewShot(RIDGE, "new").fit(labelled(count), 0)
    fresh = rows(seed=1)
    return float(np.abs(fitted.log_seconds(fresh.knowing()) - fresh.log_seconds)[:, 5].mean())


def test_labels_help_and_without_any_it_is_the_mean_platform() -> None:
    assert error(6) < 0.5 * error(0)
    fitted = FewShot(RIDGE, "new").fit(labelled(0), 0)
    asked = rows(seed=1).knowing()
    found = fitted.log_seconds(asked)
    assert found[:, 5] == pytest.approx(found[:, 1:5].mean(axis=1), abs=1e-9)


def test_other_platforms_are_the_familys_own() -> None:
    data = labelled(4)
    known = data.with_platforms(PLATFORMS[:5])
    asked = rows(seed=1).knowing()
    plain = RIDGE.fit(known, 0).log_seconds(asked.with_platforms(PLATFORMS[:5]))
    assert FewShot(RIDGE, "new").fit(data, 0).log_seconds(asked)[:, :5] == pytest.approx(plain)


def test_a_known_time_is_given_back() -> None:
    fresh = rows(seed=1).knowing(["new"])
    found = FewShot(RIDGE, "new").fit(labelled(4), 0).log_seconds(fresh)
    assert (found[:, 5] == fresh.log_seconds[:, 5]).all()


def test_doubt_falls_with_labels() -> None:
    data = rows()
    old = targets(data.with_platforms(PLATFORMS[:5]))
    doubts = []
    for count in (0, 2, 12):
        new = np.where(np.arange(len(data)) < count, data.log_speedup[:, 5], np.nan)
        transfer = fit_transfer(old, new, data.weights())
        doubts.append(transfer.deviation(old).mean())
    assert doubts[0] > doubts[1] > doubts[2]


@pytest.mark.parametrize("name", ["cpu", "nowhere"])
def test_a_platform_that_cannot_be_new_is_refused(name) -> None:
    with pytest.raises(UsageError, match=name):
        FewShot(RIDGE, name).fit(rows(), 0)


def test_two_platforms_are_too_few_to_place_another_among() -> None:
    with pytest.raises(UsageError, match="2 platforms are too few"):
        FewShot(RIDGE, "new").fit(rows().with_platforms(("cpu", "g1", "g2", "new")), 0)


def test_curves_fall_with_labels(monkeypatch) -> None:
    monkeypatch.setattr(few_shot, "DRAWS", 2)
    calls = []
    found = few_shot.evaluate_few_shot(
        rows(),
        [Entry("ridge", lambda: (RIDGE,))],
        data="toy",
        seed=0,
        advance=lambda: calls.append(1),
    )
    curve = found.results[0].plain
    assert len(curve.error) == len(few_shot.LABELS)
    assert curve.error[-1] < curve.error[0]
    assert all(a <= b <= c for a, b, c in zip(curve.low, curve.error, curve.high, strict=True))
    assert len(calls) == few_shot.steps(rows(), 1)


def test_a_committee_is_the_mean_of_its_members() -> None:
    data, asked = rows(), rows(seed=1).knowing()
    found = Committee((RIDGE, Always())).fit(data, 0).log_seconds(asked)
    each = [family.fit(data, 0).log_seconds(asked) for family in (RIDGE, Always())]
    assert found == pytest.approx((each[0] + each[1]) / 2)


def test_a_committee_needs_members() -> None:
    with pytest.raises(UsageError, match="members"):
        Committee(()).fit(rows(), 0)
