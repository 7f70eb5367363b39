"""The figures of ``make fresh-site``: right choices, regret and intervals, on made-up programs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from fresh_site import SETS
from site_programs import Program, installed, packages
from site_report import Answer, Outcome, coverage, first_place, regret, report, right, shown_place


def outcome(
    name: str,
    a_s: float,
    b_s: float,
    went: str,
    *,
    threads: int = 1,
    on_a: tuple[float, float] | None = None,
    on_b: tuple[float, float] | None = None,
) -> Outcome:
    predicted = {
        place: (ends[0], math.sqrt(ends[0] * ends[1]), ends[1])
        for place, ends in (("full", on_a), ("pair", on_b))
        if ends is not None
    }
    return Outcome(
        Program(name, name, (name,), threads), {"full": a_s, "pair": b_s}, Answer(went, predicted)
    )


OUTCOMES = [
    outcome("right", 1.0, 2.0, "full", on_a=(0.9, 1.2), on_b=(1.9, 2.1)),
    outcome("wrong", 2.0, 1.0, "full", threads=2, on_a=(1.0, 1.9), on_b=(0.5, 1.0)),
    outcome("close", 1.0, 1.1, "pair", on_b=(1.2, 1.8)),
    outcome("listed", 1.0, 1.44, "full,pair", on_a=(0.5, 1.5)),
    outcome("nowhere", 1.0, 4.0, "auto", threads=2),
]


def sent(one: Outcome) -> str:
    return first_place(one.piloted)


def test_only_programs_whose_times_differ_by_over_ten_percent_are_counted() -> None:
    assert [one.close for one in OUTCOMES] == [False, False, True, False, False]
    assert right(OUTCOMES, sent) == 2
    assert right(OUTCOMES, lambda _: "full") == 3
    assert right(OUTCOMES, lambda _: "pair") == 1
    assert right(OUTCOMES, lambda one: one.by_threads) == 3


def test_regret_is_the_geometric_mean_of_all_and_a_job_sent_nowhere_has_its_longest_time() -> None:
    assert regret(OUTCOMES, sent) == pytest.approx((1 * 2 * 1.1 * 1 * 4) ** 0.2)
    assert regret(OUTCOMES, lambda _: "pair") == pytest.approx((2 * 1 * 1.1 * 1.44 * 4) ** 0.2)
    assert regret(OUTCOMES, lambda one: one.by_threads) == pytest.approx(4**0.2)
    assert math.isnan(regret([], sent))


def test_intervals_are_counted_on_both_kinds_and_missing_ones_apart() -> None:
    on_a = coverage(OUTCOMES, "full", lambda one: one.piloted)
    assert (on_a.held, on_a.predicted, on_a.programs) == (2, 3, 5)
    assert max(on_a.factors) == pytest.approx(3.0)
    on_b = coverage(OUTCOMES, "pair", lambda one: one.piloted)
    assert (on_b.held, on_b.predicted) == (2, 3)


@pytest.mark.parametrize(
    ("went", "shown"),
    [("full", "A"), ("full,pair", "A, then B"), ("auto", "nowhere"), ("", "nowhere")],
)
def test_where_a_job_went_is_said_by_letters(went: str, shown: str) -> None:
    assert shown_place(went) == shown


def test_the_report_has_the_rules_and_both_kinds_and_no_second_half_without_real_jobs() -> None:
    text = "\n".join(report(OUTCOMES))
    assert "2 of 4 (50%)" in text
    for name in ("Berth", "always A", "always B", "threads only", "B (piloted here)", "ran last"):
        assert name in text
    assert text.count("WRONG") == 2
    assert "real job" not in text


def test_the_second_half_names_jobs_that_taught_nothing_and_jobs_that_ran_elsewhere() -> None:
    first, second = (outcome(name, 1.0, 2.0, "pair") for name in ("first", "second"))
    first.ran, first.counted, first.learnt = "pair", "used", Answer("full")
    second.ran, second.counted, second.learnt = "full", "too-short", Answer("pair")
    first.memory_bytes, second.memory_bytes = (10e6, 10.1e6), (6e6, 10e6)
    text = "\n".join(report([first, second]))
    assert "1 of 2 jobs were learnt from; second: too-short" in text
    assert "second: the real job ran on A, sent to B after the pilot" in text
    assert "0 of 2 (0%)" in text
    assert "1 of 2 (50%)" in text
    assert (
        "within 3% 1 of 2, median 0.795, farthest 0.600 (second); they differ by at most 4.0 MB"
        in text
    )


def test_pilots_on_the_other_kind_have_their_own_tables_and_their_cost() -> None:
    one, two = outcome("one", 1.0, 2.0, "pair"), outcome("two", 1.0, 2.0, "full")
    both = {"full": (0.9, 1.0, 1.1), "pair": (1.5, 1.8, 2.1)}
    one.piloted_on_a, one.pilot_cost = Answer("full", both), 2.0
    two.piloted_on_a, two.pilot_cost = Answer("full", {"full": both["full"]}), 3.0
    text = "\n".join(report([one, two]))
    on_b, on_a = text.split("After the pilots on A")
    assert "Usable forecast on both kinds: 0 of 2" in on_b
    assert "Usable forecast on both kinds: 1 of 2" in on_a
    assert "A (piloted here)" in on_a
    assert "median 2.50, largest 3.00" in on_a


def test_a_place_that_was_left_out_is_named_with_its_reason() -> None:
    one = Outcome(
        Program("p", "p", ("p",)),
        {"full": 1.0, "pair": 2.0},
        Answer("pair", {}, "", {"full": "too few cores"}),
    )
    assert "p: A is left out: too few cores" in "\n".join(report([one]))


def test_the_sets_have_names_once_and_what_is_not_installed_is_told_apart() -> None:
    for programs in (make(Path("below")) for make in SETS.values()):
        assert len({program.name for program in programs}) == len(programs)
        assert all(program.threads in {1, 2} for program in programs)
    new = SETS["new"](Path("below"))
    assert len(new) == 20
    assert len(SETS["third"](Path("below"))) == 25
    assert {"gawk", "openmpi-bin"} <= set(packages(new))
    there = Program("there", "sh", ("sh",))
    absent = Program("absent", "no-such-program", ("no-such-program",), package="some-package")
    assert installed([there, absent]) == ([there], [absent])
