"""Predictions combine in any order, measurements win, and better platforms are not slower."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.predictor.core.combine import SourceEstimate, combine, ordered
from berth.predictor.core.intervals import NORMAL_90, around
from berth.predictor.core.prediction import Basis, Interval

MODELLED = [basis for basis in Basis if basis is not Basis.MEASURED]


def estimate(
    source: str, mid: float, width: float, basis: Basis = Basis.CALIBRATED, why: str | None = None
) -> SourceEstimate:
    return SourceEstimate(source, around(mid, width), basis, "held out", why)


estimates = st.lists(
    st.builds(
        estimate,
        st.text("abcdef", min_size=1, max_size=3),
        st.floats(1e-6, 1e6),
        st.floats(0.02, 3.0),
        st.sampled_from(MODELLED),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda one: one.source,
)


@given(estimates, st.randoms())
def test_the_order_given_does_not_matter(given_: list[SourceEstimate], rng: random.Random) -> None:
    shuffled = given_.copy()
    rng.shuffle(shuffled)
    assert combine(shuffled) == combine(given_)


@given(estimates)
def test_the_combination_lies_between_its_sources(given_: list[SourceEstimate]) -> None:
    found = combine(given_)
    middles = [one.seconds.mid for one in given_]
    assert min(middles) * (1 - 1e-9) <= found.seconds.mid <= max(middles) * (1 + 1e-9)
    assert sum(share.weight for share in found.shares) == pytest.approx(1)
    assert found.basis is min((one.basis for one in given_), key=lambda basis: basis.rank)


def test_one_source_is_given_back_as_it_is() -> None:
    only = estimate("process", 2.0, 0.3, Basis.PRIOR, "nobody measured it")
    found = combine([only])
    assert (found.seconds, found.basis, found.abstained) == (
        only.seconds,
        Basis.PRIOR,
        "nobody measured it",
    )


def test_the_surer_source_counts_more() -> None:
    found = combine([estimate("sure", 1.0, 0.1), estimate("unsure", 4.0, 1.0)])
    assert found.seconds.mid < 1.1
    assert found.shares[0].source == "sure"


def test_a_measurement_is_taken_alone() -> None:
    measured = estimate("run", 5.0, 0.2, Basis.MEASURED)
    found = combine([estimate("process", 1.0, 0.05), measured])
    assert found.seconds == measured.seconds
    assert [share.source for share in found.shares] == ["run"]


def test_a_source_that_abstains_counts_only_where_all_do() -> None:
    unsure = estimate("process", 1.0, 0.1, why="unlike every model")
    found = combine([unsure, estimate("operators", 3.0, 0.4)])
    assert found.seconds.mid == pytest.approx(3.0)
    assert found.abstained is None
    assert combine([unsure]).abstained == "unlike every model"


def test_sources_that_disagree_widen_the_interval() -> None:
    together = combine([estimate("a", 1.0, 0.2), estimate("b", 1.0, 0.2)])
    apart = combine([estimate("a", 1.0, 0.2), estimate("b", 3.0, 0.2)])
    assert _width(together.seconds.high, together.seconds.mid) <= 0.2
    assert _width(apart.seconds.high, apart.seconds.mid) > 0.5


@given(estimates)
def test_it_is_never_wider_than_the_widest_source_and_their_disagreement(
    given_: list[SourceEstimate],
) -> None:
    found = combine(given_).seconds
    logs = [math.log(one.seconds.mid) for one in given_]
    widest = max(one.log_width for one in given_)
    apart = NORMAL_90 * (max(logs) - min(logs))
    assert _width(found.high, found.mid) <= widest + apart + 1e-6


def test_a_source_that_only_repeats_the_errors_of_a_surer_one_gets_nothing() -> None:
    found = combine([estimate("sure", 1.0, 0.1), estimate("unsure", 4.0, 1.0)])
    assert [share.source for share in found.shares] == ["sure"]
    assert found.seconds.mid == pytest.approx(1.0)


def _width(high: float, mid: float) -> float:
    return math.log(high / mid)


NAMES = "abcdef"
PAIRS = st.sets(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)).filter(lambda p: p[0] < p[1])
)
"""Better ones come first in the alphabet: an order without circles."""
TIMES = st.dictionaries(
    st.sampled_from(NAMES),
    st.builds(around, st.floats(1e-3, 1e3), st.floats(0.02, 2.0)),
    min_size=1,
)


@given(TIMES, PAIRS)
def test_a_better_platform_is_not_slower(
    times: dict[str, Interval], pairs: set[tuple[str, str]]
) -> None:
    found = ordered(times, pairs)
    for better, worse in pairs:
        if better in found and worse in found:
            assert found[better].mid <= found[worse].mid * (1 + 1e-12)
    assert {n: one.high / one.mid for n, one in found.items()} == pytest.approx(
        {n: one.high / one.mid for n, one in times.items()}
    )


@given(TIMES, PAIRS, st.randoms())
def test_the_order_of_pairs_does_not_matter(
    times: dict[str, Interval], pairs: set[tuple[str, str]], rng: random.Random
) -> None:
    names, some = list(times), list(pairs)
    rng.shuffle(names)
    rng.shuffle(some)
    assert ordered({name: times[name] for name in names}, some) == ordered(times, pairs)


@given(TIMES, PAIRS)
def test_what_agrees_stays(times: dict[str, Interval], pairs: set[tuple[str, str]]) -> None:
    once = ordered(times, pairs)
    again = ordered(once, pairs)
    assert {n: one.mid for n, one in again.items()} == pytest.approx(
        {n: one.mid for n, one in once.items()}
    )


def test_the_surer_prediction_moves_less() -> None:
    found = ordered({"new": around(2.0, 0.5), "old": around(1.0, 0.05)}, [("new", "old")])
    assert found["new"].mid == pytest.approx(found["old"].mid)
    assert 1.0 < found["old"].mid < 1.05
