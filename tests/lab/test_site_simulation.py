"""The simulated site: knows only what finished jobs told it, and gets better by it."""

from __future__ import annotations

import numpy as np
import pytest

from berth.predictor.learning.cells import SHIPPED, Hardware, RunShape
from lab.site.fit_components import SHARES, fit_components
from lab.site.site_simulation import (
    Fixed,
    Learning,
    Step,
    calibrated,
    coverage,
    half_width,
    regret,
    report_of,
    simulate,
)
from lab.site.worlds import World

PLACES = (Hardware("c", "cpu"), Hardware("g", "gpu"), Hardware("h", "gpu"))


def world(name: str = "app", error: float = 1.0, rows: int = 3) -> World:
    """GPUs are forecast too fast by ``error`` (log): the CPU is the best."""
    forecast = np.tile([0.0, -0.4, -0.3], (rows, 1))
    real = forecast + np.array([0.0, error, error]) + 0.02 * np.arange(rows)[:, None]
    return World(
        name, PLACES, tuple(RunShape("k", float(n)) for n in range(rows)), forecast,
        np.full((rows, 3), 0.5), real, np.full((rows, 3), 0.01),
    )  # fmt: skip


def test_a_site_learns_which_device_is_the_best() -> None:
    made = simulate(world(), Learning(SHIPPED), orders=3, seed=0)
    fixed = simulate(world(), Fixed(), orders=3, seed=0)
    assert regret(made, 0, 1) == regret(fixed, 0, 1) == pytest.approx(np.exp(0.6))
    assert regret(made, 5, 20) == pytest.approx(1.0, abs=0.01)
    assert regret(fixed, 5, 20) == pytest.approx(np.exp(0.6))


def test_the_same_seed_gives_the_same_orders() -> None:
    one, two = (simulate(world(), Learning(SHIPPED), orders=1, seed=3) for _ in range(2))
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
    steps = simulate(world(), Learning(parts), orders=1, seed=0)
    text = report_of({"cost model, posterior": steps}, {}).text()
    assert "submissions 6 to 20" in text
