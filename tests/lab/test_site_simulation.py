"""The simulated site: knows only what finished jobs told it, and gets better by it."""

from __future__ import annotations

import numpy as np
import pytest

from berth.policies.settings import Explore
from berth.predictor.learning.cells import Place, Row
from berth.predictor.learning.components import SHIPPED
from lab.experiments.site_simulation import calibrated, report_of
from lab.site.fit_components import SHARES, fit_components
from lab.site.simulate import Step, coverage, half_width, regret, simulate
from lab.site.strategies import EpsilonGreedy, Exploring, Fixed, Learning, ToldAll
from lab.site.table_worlds import Runs
from lab.site.world import World

PLACES = (Place("c", "cpu"), Place("g", "gpu"), Place("h", "gpu"))


def world(name: str = "app", error: float = 1.0, rows: int = 3) -> World:
    """GPUs are forecast too fast by ``error`` (log): the CPU is the best."""
    forecast = np.tile([0.0, -0.4, -0.3], (rows, 1))
    real = forecast + np.array([0.0, error, error]) + 0.02 * np.arange(rows)[:, None]
    return World(
        name, PLACES, tuple(Row("k", float(n)) for n in range(rows)), forecast,
        np.full((rows, 3), 0.5), real, np.full((rows, 3), 0.01),
    )  # fmt: skip


def test_a_site_learns_which_device_is_the_best() -> None:
    made = simulate(world(), Learning("l", SHIPPED), orders=3, seed=0)
    fixed = simulate(world(), Fixed("f"), orders=3, seed=0)
    assert regret(made, 0, 1) == regret(fixed, 0, 1) == pytest.approx(np.exp(0.6))
    assert regret(made, 5, 20) == pytest.approx(1.0, abs=0.01)
    assert regret(fixed, 5, 20) == pytest.approx(np.exp(0.6))
    for strategy in (EpsilonGreedy("e"), ToldAll("t", SHIPPED)):
        assert regret(simulate(world(), strategy, orders=2, seed=0), 5, 20) < np.exp(0.6)


def test_the_same_seed_gives_the_same_orders() -> None:
    one, two = (simulate(world(), Learning("l", SHIPPED), orders=1, seed=3) for _ in range(2))
    assert one == two


def test_applications_weigh_the_same() -> None:
    steps = [Step("a", 0, 0, 0.0, 0.1)] * 9 + [Step("b", 0, 0, np.log(4.0), 3.0)]
    assert regret(steps, 0, 1) == pytest.approx(2.0)
    assert coverage(steps, 0, 1, 1.645) == 0.5
    assert half_width(steps, 0, 1, level=0.5) == pytest.approx(0.1)
    assert half_width(steps, 0, 1) == pytest.approx(3.0)


def test_shares_and_widths_are_fitted_and_reported() -> None:
    worlds = [world("a", 0.9), world("b", -0.4), world("c", 0.3)]
    parts = fit_components(worlds)
    assert all(getattr(parts, name) > 0 for name in SHARES)
    assert calibrated(parts, worlds, 0).interval != (1.0, 1.0, 1.0)
    steps = simulate(world(), Learning("cost model, posterior", parts), orders=1, seed=0)
    text = report_of({"cost model, posterior": steps}, {}).text()
    assert "regret, 6 to 20" in text
    assert "oracle" in text


def test_submissions_are_sent_to_learn_as_the_filter_would_within_their_share() -> None:
    # The CPU is picked for ever: only a run that is sent to learn tells that a GPU is faster.
    unknown = World(
        "app", PLACES, (Row("k"),), np.array([[0.0, 0.2, 0.3]]), np.array([[0.02, 0.4, 0.4]]),
        np.array([[0.0, -0.5, 0.6]]), np.full((1, 3), 0.01),
    )  # fmt: skip
    explore = Explore(core_hours=1e9, share=0.2, worst=4.0)
    made = simulate(unknown, Exploring("e", SHIPPED, explore), orders=2, seed=0)
    sent = [step.number for step in made if step.to_learn]
    assert sent
    assert min(sent) >= 4
    assert len(sent) <= 2 * 20 * 0.2
    never = simulate(unknown, Learning("l", SHIPPED), orders=2, seed=0)
    assert regret(made, 10, 20) < regret(never, 10, 20)
    none = simulate(unknown, Exploring("e", SHIPPED, Explore(share=0.04)), orders=2, seed=0)
    assert not any(step.to_learn for step in none)


def test_a_public_table_as_a_site_knows_nothing_of_who_arrives() -> None:
    names = ("a",) * 4 + ("b",) * 4 + ("c",) * 4 + ("d",)
    known = np.linspace(0.0, 1.0, len(names))[:, None]
    speed = np.hstack([np.zeros((len(names), 1)), -0.5 - known, 0.2 + 0 * known])
    runs = Runs(names, tuple(Row("", float(x[0])) for x in known), PLACES, speed + 3.0, known)
    assert runs.names == ["a", "b", "c"]
    flat, ridge = (runs.world("b", features=with_them) for with_them in (False, True))
    assert np.abs(ridge.log_residual).max() < np.abs(flat.log_residual).max()
    assert flat.log_forecast[:, 0].tolist() == flat.log_seconds[:, 0].tolist()
    assert (flat.deviation[:, 0] < flat.deviation[:, 1]).all()
    other = Runs(names, runs.rows, PLACES, runs.log_seconds.copy(), known)
    other.log_seconds[4:8, 1] += 5.0  # what is unseen changes nothing
    assert (other.world("b", features=True).log_forecast == ridge.log_forecast).all()
