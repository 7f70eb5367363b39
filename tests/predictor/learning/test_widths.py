"""Widths of intervals by how many runs were seen, from a site's other programs."""

from __future__ import annotations

import numpy as np
import pytest

from berth.predictor.learning.cells import SHIPPED
from berth.predictor.learning.surprises import CoverageGrid, ProgramCoverage, interval_factors


def program(*scales: float, jobs: int = 40, seed: int = 0) -> ProgramCoverage:
    """Surprises with one deviation before the first run, after 1 to 4, and after more."""
    draws, found = np.random.default_rng(seed), ProgramCoverage()
    for scale, runs in zip(scales, (0, 2, 9), strict=True):
        for _ in range(jobs):
            found.add(runs, float(scale * draws.standard_normal()))
    return found


def test_without_other_programs_widths_are_those_that_ship() -> None:
    assert interval_factors(CoverageGrid(), SHIPPED) == pytest.approx(SHIPPED.interval, rel=0.03)


def test_each_phase_learns_its_own_factor() -> None:
    others = sum((program(2.0, 1.0, 0.4, jobs=100, seed=n) for n in range(40)), CoverageGrid())
    assert interval_factors(others, SHIPPED) == pytest.approx((2.0, 1.0, 0.4), rel=0.1)


def test_programs_weigh_the_same_whatever_their_jobs() -> None:
    many = program(9.0, 9.0, 9.0, jobs=2_000)
    others = sum((program(1.0, 1.0, 1.0, seed=n) for n in range(1, 30)), CoverageGrid())
    found = interval_factors(others + many, SHIPPED)
    assert max(found) < 1.6, "one program of thousands of jobs is one of thirty"
    assert interval_factors(others + many - many, SHIPPED) == pytest.approx(
        interval_factors(others, SHIPPED)
    )


def test_surprises_that_no_factor_holds_widen_to_the_widest() -> None:
    odd = ProgramCoverage()
    for value in (float("inf"), 1e300, -1e300):
        odd.add(0, value)
    lone = interval_factors(sum((odd for _ in range(50)), CoverageGrid()), SHIPPED)
    assert lone[0] == pytest.approx(12.0)
    assert lone[1:] == pytest.approx(SHIPPED.interval[1:], rel=0.03)
