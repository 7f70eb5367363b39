"""The cost model: physics it must get right, gaps it must bear, errors it must name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from toy_rows import toy

from berth.pilot.errors import UsageError
from berth.predictor.families.relative.rows import Rows
from lab.relative.cost_model import CostModel
from lab.relative.cost_model_family import (
    CostModelFamily,
    CovarianceTerms,
    fit_costs,
    fit_gaussian,
)
from lab.relative.family import LEAVE_ONE_APPLICATION_OUT, held_out
from lab.relative.figures import vector_figures
from lab.relative.views import LAUNCH, SERIAL, WORK

FAMILY = CostModelFamily(kinds={"cpu": "cpu", "gpu": "nvidia", "slice": "nvidia"})


def physical(applications: int = 6, sizes: int = 4, seed: int = 0) -> Rows:
    """A GPU with 10 us a launch, 1e11 instructions/s in all, 20 ns for each of one thread."""
    rng = np.random.default_rng(seed)
    n = applications * sizes
    threads = 10 ** rng.uniform(0, 6, n)
    each = 10 ** rng.uniform(1, 4, n)
    work = threads * each
    reference = 2e-6 + work / 1e10
    gpu = 1e-5 + work / 1e11 + 20e-9 * each
    seconds = np.column_stack([reference, gpu, 2e-5 + 2 * (gpu - 1e-5)])
    return Rows(
        counters=("instructions", "threads"),
        values=np.column_stack([work, threads]),
        platforms=("cpu", "gpu", "slice"),
        reference="cpu",
        log_seconds=np.log(seconds) + rng.normal(0, 0.02, (n, 3)) * [0, 1, 1],
        applications=tuple(f"app{i // sizes}" for i in range(n)),
        kernels=tuple("kernel" for _ in range(n)),
        sizes=tuple(str(i % sizes) for i in range(n)),
    )


def test_launch_serial_and_rate_are_found_from_times_alone() -> None:
    rows = physical(applications=12)
    model = FAMILY.fit(rows, 0)
    costs = dict(zip(model.costs.terms, model.costs.log_cost[1], strict=True))
    assert costs[LAUNCH] == pytest.approx(np.log(1e-5), abs=0.3)
    assert costs[SERIAL] == pytest.approx(np.log(20e-9), abs=0.3)


def test_unseen_applications_are_predicted_across_launch_bound_and_large_ones() -> None:
    rows = physical()
    found = vector_figures(rows, held_out(rows, FAMILY, LEAVE_ONE_APPLICATION_OUT, seed=0))
    assert found.median_time_error < 0.15
    assert found.r2_log_speedup > 0.95


def test_a_cpu_has_no_serial_cost() -> None:
    model = FAMILY.fit(physical(), 0)
    serial = model.costs.terms.index(SERIAL)
    assert np.exp(model.costs.log_cost[0, serial]) == 0
    assert np.exp(model.costs.log_cost[1, serial]) > 0


def test_the_gradient_of_the_cost_model_leads_to_a_minimum() -> None:
    rows = physical()
    seen = FAMILY.fit(rows, 0).seen(rows)
    costs = fit_costs(rows, seen, ["cpu", "nvidia", "nvidia"])
    off = np.abs(costs.log_seconds(seen) - rows.log_seconds).mean()
    for term in (LAUNCH, WORK):
        moved = costs.log_cost.copy()
        moved[:, costs.terms.index(term)] += 0.7
        worse = np.abs(replace(costs, log_cost=moved).log_seconds(seen) - rows.log_seconds).mean()
        assert worse > off


def test_the_same_rows_give_the_same_model_whatever_the_seed() -> None:
    rows = physical()
    one, two = FAMILY.fit(rows, 0), FAMILY.fit(rows, 1)
    assert (one.log_seconds(rows.knowing()) == two.log_seconds(rows.knowing())).all()


def test_known_times_are_given_back() -> None:
    rows = physical()
    asked = rows.knowing(["gpu"])
    assert FAMILY.fit(rows, 0).log_seconds(asked)[:, 1].tolist() == rows.log_seconds[:, 1].tolist()


def test_missing_labels_are_allowed_and_cost_little() -> None:
    rows = physical(applications=8)
    times = rows.log_seconds.copy()
    times[::3, 1] = np.nan
    times[1::3, 2] = np.nan
    guess = FAMILY.fit(replace(rows, log_seconds=times), 0).log_seconds(rows.knowing())
    assert np.isfinite(guess).all()
    assert np.median(np.abs(guess - rows.log_seconds)) < 0.1


def test_a_platform_without_any_label_is_predicted_from_its_kind() -> None:
    rows = physical(applications=8)
    times = rows.log_seconds.copy()
    times[:, 2] = np.nan
    guess = FAMILY.fit(replace(rows, log_seconds=times), 0).log_seconds(rows.knowing())
    assert np.isfinite(guess).all()
    assert np.abs(guess[:, 2] - rows.log_seconds[:, 1]).mean() < 0.5


def test_missing_and_constant_counters_are_borne() -> None:
    rows = physical()
    values = np.column_stack([rows.values, np.full(len(rows), 7.0), np.full(len(rows), np.nan)])
    values[::4, 0] = np.nan
    told = replace(rows, counters=(*rows.counters, "same", "never"), values=values)
    model = FAMILY.fit(told, 0)
    assert np.isfinite(model.log_seconds(told.knowing())).all()


def test_another_size_of_a_known_kernel_leans_on_that_kernel() -> None:
    """One application runs 3 times slower on the GPU than its counters say."""
    rows = physical(applications=8, sizes=5)
    times = rows.log_seconds.copy()
    odd = [i for i, name in enumerate(rows.applications) if name == "app3"]
    times[odd, 1] += np.log(3)
    told = replace(rows, log_seconds=times)
    held = odd[2]
    rest = told.take([i for i in range(len(rows)) if i != held])
    row = told.take([held]).knowing()
    stranger = replace(row, applications=("new",), kernels=("new",))
    model = FAMILY.fit(rest, 0)
    off = [abs(model.log_seconds(r)[0, 1] - times[held, 1]) for r in (row, stranger)]
    assert off[0] < off[1]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda r: r.take([]), "no rows to learn from"),
        (lambda r: r.with_platforms(["cpu"]), "the only platform"),
        (lambda r: replace(r, log_seconds=np.full_like(r.log_seconds, np.nan)), "has no time on"),
        (lambda r: r.knowing(), "any platform but the reference"),
        (lambda r: replace(r, log_seconds=r.log_seconds - np.inf), "has no time on|zero or infin"),
        (lambda r: replace(r, counters=(), values=np.empty((len(r), 0))), "no counters"),
    ],
)
def test_rows_that_nothing_can_be_learnt_from_are_refused_in_words(broken, message) -> None:
    with pytest.raises(UsageError, match=message):
        FAMILY.fit(broken(toy()), 0)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda r: replace(r, counters=("instructions", "joules")), "'threads', which the model"),
        (
            lambda r: replace(
                r,
                counters=(*r.counters, "joules"),
                values=np.column_stack([r.values, r.values[:, 0]]),
            ),
            "'joules' is unknown",
        ),
        (lambda r: replace(r, counters=r.counters[::-1]), "another order"),
        (lambda r: replace(r, reference="gpu"), "piloted on gpu"),
        (lambda r: r.with_platforms(["cpu", "gpu"]), "the model predicts"),
    ],
)
def test_rows_that_do_not_fit_the_model_are_refused_in_words(other, message) -> None:
    model: CostModel = FAMILY.fit(physical(), 0)
    with pytest.raises(UsageError, match=message):
        model.log_seconds(other(physical()))


def test_a_process_gives_back_its_points_and_forgets_far_away() -> None:
    kernel = CovarianceTerms(0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1e-4)
    places = np.arange(5.0)[:, None]
    values = np.sin(places)
    groups = [("a", str(i)) for i in range(5)]
    found = fit_gaussian(places, values, groups, [kernel], np.ones(5), scaled=False)
    assert found.mean(places, groups) == pytest.approx(values, abs=1e-3)
    assert found.mean(np.array([[90.0]]), [("new", "new")])[0, 0] == pytest.approx(0, abs=1e-6)
