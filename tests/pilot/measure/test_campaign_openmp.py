"""The OpenMP build shows what the serial one cannot: atomic updates and parallel regions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.campaign_openmp import Counts, openmp_counters, parse
from berth.pilot.suite import Suite

N = 65_536


@pytest.fixture(scope="module")
def parallel(suite: Suite) -> Suite:
    if suite.openmp is None:
        pytest.skip(f"no OpenMP here: {suite.openmp_problem}")
    return suite


@pytest.mark.valgrind
@pytest.mark.parametrize(
    ("kernel", "regions", "atomics"),
    [("Basic_PI_ATOMIC", 1, N), ("Basic_PI_REDUCE", 1, 0), ("Apps_ENERGY", 6, 0)],
)
def test_atomics_and_regions_of_a_repetition(
    parallel: Suite, valgrind: None, kernel: str, regions: int, atomics: int
) -> None:
    found = openmp_counters(parallel, kernel, N)
    assert found["parallel_regions"].value == regions
    assert found["atomic_ops"].value == pytest.approx(atomics, rel=0.01, abs=500)


def test_calls_and_totals_are_read() -> None:
    text = """events: Ir Ge
fn=main
cfn=GOMP_parallel
calls=3 0
12 100 0
cfn=printf
calls=9 0
13 10 0
fn=other
cfn=__kmpc_fork_call
calls=2 0
totals: 12345 67
"""
    assert parse(text.splitlines()) == Counts(atomics=67, regions=5)


@given(st.lists(st.text(alphabet="cfnals=0123456789: GOMP_parallel\n", max_size=40), max_size=20))
def test_any_text_is_read_without_error(lines: list[str]) -> None:
    found = parse(lines)
    assert found.atomics >= 0
    assert found.regions >= 0
