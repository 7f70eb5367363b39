"""Ratios between kinds of hardware from past jobs: right, honest about their error, and safe from
single users."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from berth.pilot.platform import Platform
from berth.predictor.hardware import platforms as known_platforms
from berth.predictor.learning.history.kernel_ratios import (
    LEAST_KERNELS,
    UNKNOWN,
    Population,
    by_kernels,
)
from berth.predictor.learning.history.kind_ratios import (
    HOME,
    LEAST_USERS,
    KindRatios,
    LogRatio,
    in_usual_order,
)
from berth.predictor.learning.history.run_pairs import TimedRun, pairs_of

OLD, NEW = "old", "new"


def runs(
    ratio: float, count: int = 20, *, spread: float = 0.1, base_s: float = 600.0, seed: object = 0
) -> list[TimedRun]:
    """Runs of one program by turns on both kinds; one in ten has quite another input."""
    rng = random.Random(f"{seed} {ratio} {count}")  # noqa: S311
    made = []
    for number in range(count):
        platform = OLD if number % 2 else NEW
        seconds = base_s * math.exp(rng.gauss(0, spread) + (rng.random() < 0.1) * rng.gauss(0, 3))
        seconds *= ratio if platform == OLD else 1.0
        whole_s = float(math.floor(rng.random() + seconds))
        made.append(TimedRun("shape", platform, float(number), float(number), whole_s))
    return made


def timed(platform: str, submit_s: float, runtime_s: float) -> TimedRun:
    return TimedRun("s", platform, submit_s, submit_s, runtime_s)


def site(ratios: dict[tuple[str, str], float], **how: Any) -> KindRatios:
    return KindRatios(
        {program: pairs_of(runs(r, seed=program, **how)) for program, r in ratios.items()}
    )


def covers(ratio: LogRatio | None, truth: float) -> bool:
    assert ratio is not None
    return abs(ratio.mid - math.log(truth)) <= ratio.half_width


def test_programs_of_one_ratio_make_it_known_to_a_few_percent() -> None:
    known = site({(f"u{n}", "app"): 1.6 for n in range(10)})
    of_unknown = known.between(OLD, NEW, "somebody")
    assert of_unknown is not None
    assert covers(of_unknown, 1.6)
    assert of_unknown.half_width < 0.25
    assert of_unknown.programs == 10
    assert not of_unknown.is_own
    turned = known.between(NEW, OLD, "somebody")
    assert turned is not None
    assert turned.mid == pytest.approx(-of_unknown.mid)


@pytest.mark.parametrize("spread", [0.1, 0.35, 0.6])
def test_intervals_hold_for_programs_left_out(spread: float) -> None:
    rng = np.random.default_rng(7)
    held = []
    for _ in range(12):
        truths = {(f"u{n}", "app"): float(1.6 * np.exp(spread * rng.normal())) for n in range(14)}
        left_out, *_ = truths
        known = site({program: r for program, r in truths.items() if program != left_out})
        for truth in np.exp(spread * rng.normal(size=8)) * 1.6:
            held.append(covers(known.between(OLD, NEW, "somebody"), float(truth)))
    assert 0.82 <= np.mean(held) <= 0.98


def test_a_program_with_runs_on_both_kinds_has_its_own_ratio() -> None:
    ratios = {(f"u{n}", "app"): 1.6 * math.exp(0.4 * math.sin(n)) for n in range(10)}
    known = site(ratios | {(f"ada{n}", "odd"): 0.6 for n in range(12)}, count=40)
    own = [known.between(OLD, NEW, f"ada{n}", "odd") for n in range(12)]
    assert all(ratio is not None and ratio.is_own for ratio in own)
    assert sum(covers(ratio, 0.6) for ratio in own) >= 8
    assert all(0.5 < math.exp(ratio.mid) < 0.75 for ratio in own if ratio is not None)


def test_one_differing_pair_moves_a_program_less_than_twenty() -> None:
    ratios = {(f"u{n}", "app"): 1.6 * math.exp(0.3 * math.sin(n)) for n in range(10)}
    programs = {program: pairs_of(runs(r, seed=program)) for program, r in ratios.items()}
    once = pairs_of([timed(OLD, 0.0, 300.0), timed(NEW, 1.0, 600.0)])
    few = KindRatios(programs | {("ada", "x"): once}).between(OLD, NEW, "ada", "x")
    often = KindRatios(programs | {("ada", "x"): pairs_of(runs(0.5, 40))}).between(
        OLD, NEW, "ada", "x"
    )
    assert few is not None
    assert often is not None
    assert few.mid > often.mid
    # Its user may have chosen the kind by the input's size: both that and 1.6 stay possible.
    assert not often.is_own
    assert covers(often, 0.5)
    assert covers(often, 1.6)


def test_runs_of_a_second_or_two_say_little_because_clocks_count_whole_seconds() -> None:
    short = site({(f"u{n}", "app"): 1.6 for n in range(4)}, base_s=1.5, spread=0.0)
    long = site({(f"u{n}", "app"): 1.6 for n in range(4)}, base_s=1500.0, spread=0.0)
    of_short, of_long = (known.between(OLD, NEW, "somebody") for known in (short, long))
    assert of_short is not None
    assert of_long is not None
    assert of_short.half_width > 2 * of_long.half_width
    assert covers(of_short, 1.6)
    assert covers(of_long, 1.6)


def test_few_other_users_change_nobodys_ratio_and_one_user_counts_as_few_programs() -> None:
    two = site({("eve", "a"): 9.0, ("bob", "b"): 9.0})
    assert LEAST_USERS == 3
    assert two.between(OLD, NEW, "ada") is None
    assert two.between(OLD, NEW, "ada", everybody=True) is not None
    assert two.between(OLD, NEW, "eve") is not None
    honest = {(f"u{n}", "app"): 1.6 * math.exp(0.2 * math.sin(n)) for n in range(8)}
    flooded = site(honest | {("eve", f"app{n}"): 9.0 for n in range(60)})
    ratio = flooded.between(OLD, NEW, "ada")
    assert ratio is not None
    assert math.exp(ratio.mid) < 3.0


def test_kinds_that_no_program_ran_on_both_of_are_compared_by_a_third() -> None:
    programs = {}
    for n in range(5):
        programs[f"u{n}", "app"] = pairs_of(runs(1.6, seed=n))
        others = [
            run._replace(platform={OLD: "oldest", NEW: OLD}[run.platform])
            for run in runs(2, seed=n)
        ]
        programs[f"v{n}", "app"] = pairs_of(others)
    known = KindRatios(programs)
    assert covers(known.between("oldest", NEW, "ada"), 3.2)
    assert known.between("oldest", "elsewhere", "ada") is None


def test_a_program_of_two_kinds_is_compared_with_a_third_by_both() -> None:
    programs = {}
    for n in range(12):
        chain = [
            run._replace(platform={OLD: OLD, NEW: "newest"}[run.platform])
            for run in runs(3.2, seed=n)
        ]
        programs[f"u{n}", "app"] = pairs_of(runs(1.6, seed=n))
        programs[f"v{n}", "app"] = pairs_of(chain)
        newer = [
            run._replace(platform={OLD: NEW, NEW: "newest"}[run.platform])
            for run in runs(2, seed=n)
        ]
        programs[f"w{n}", "app"] = pairs_of(newer)
    odd = KindRatios(programs | {("ada", "odd"): pairs_of(runs(1.5, 40))})
    usual, own = (odd.between(OLD, "newest", "ada", name) for name in ("else", "odd"))
    assert usual is not None
    assert own is not None
    assert covers(usual, 3.2)
    # Half as unusual as between the kinds where it ran: 1.5 in place of 1.6.
    assert own.mid == pytest.approx(math.log(3.2) + math.log(1.5 / 1.6) / 2, abs=0.1)


def test_only_runs_of_equal_shape_are_compared() -> None:
    assert pairs_of([timed(OLD, 0.0, 9.0), timed(NEW, 1.0, 9.0)._replace(shape="b")]) == {}
    assert pairs_of([timed(OLD, 0.0, 9.0), timed(OLD, 1.0, 9.0)]) == {}
    assert KindRatios({}).between(OLD, NEW, "ada") is None


LIMIT_S, NOW_S = 1_200.0, 9_000.0


@pytest.mark.parametrize("why_missing", ["reached its limit", "has not ended"])
def test_long_runs_that_are_missing_on_the_slower_kind_do_not_make_it_look_faster(
    why_missing: str,
) -> None:
    def seen(run: TimedRun) -> TimedRun | None:
        if why_missing == "reached its limit":
            return run._replace(
                runtime_s=min(run.runtime_s, LIMIT_S), cut_off=run.runtime_s > LIMIT_S
            )
        begin_s = NOW_S - 4_000.0 + 33.0 * run.submit_s
        begun = run._replace(submit_s=begin_s, start_s=begin_s)
        return begun if begin_s + run.runtime_s < NOW_S else None

    programs = {}
    for n in range(30):
        each = [one for run in runs(1.6, 120, spread=0.5, seed=n) if (one := seen(run)) is not None]
        programs[f"u{n}", "app"] = pairs_of(each, now_s=NOW_S)
    known = KindRatios(programs)
    held = [covers(known.between(OLD, NEW, user, "app"), 1.6) for user, _ in programs]
    assert sum(held) >= 26
    assert covers(known.between(OLD, NEW, "ada"), 1.6)


def test_two_runs_that_were_both_cut_off_say_nothing() -> None:
    cut = [timed(kind, n, LIMIT_S)._replace(cut_off=True) for n, kind in enumerate((OLD, NEW))]
    assert pairs_of(cut) == {}
    assert pairs_of([cut[0], timed(NEW, 1.0, 600.0)])[NEW, OLD][0].bound == -1


def test_the_kind_that_is_usually_fastest_stays_first_unless_another_surely_is_faster() -> None:
    def ordered(**ratios: LogRatio) -> list[str]:
        usual = {"home": 0.0, "usual": -0.5, "third": -0.3}
        mids = in_usual_order({"home": HOME, **ratios}, usual)
        return sorted(mids, key=mids.__getitem__)

    usual, third = LogRatio(-0.2, 0.3, 9, False), LogRatio(-0.4, 0.3, 9, False)
    assert ordered(usual=usual, third=third) == ["usual", "third", "home"]
    assert ordered(usual=usual, third=third._replace(mid=-0.8))[0] == "third"
    # It never ran on the usual best, where it is perhaps slower than at home.
    assert ordered(usual=usual._replace(mid=0.1))[0] == "usual"
    assert ordered(usual=usual._replace(mid=0.4))[0] == "home"
    # Its own runs on both tell.
    own = {"usual": usual._replace(is_own=True), "third": third._replace(is_own=True)}
    assert ordered(**own)[0] == "third"


KERNELS = Population(math.log(1.6), 0.2, 0.3, 17)


def calibrated(*seconds: float) -> Platform:
    """A platform with these kernel times."""
    platform = known_platforms.load()["quartz"]
    times = {f"kernel{n}@1000x1": s for n, s in enumerate(seconds)}
    signature = platform.signature.model_copy(update={"kernel_times_s": times})
    return platform.model_copy(update={"signature": signature})


def test_kernels_of_both_kinds_say_how_programs_compare_and_how_much_they_differ() -> None:
    slow = calibrated(*(0.2 * math.exp(0.4 * math.sin(n)) for n in range(20)))
    fast = calibrated(*[0.1] * 20)
    known = by_kernels(slow, fast)
    assert known.kernels == 20
    assert known.mean == pytest.approx(math.log(2.0), abs=0.1)
    assert known.spread == pytest.approx(0.29, abs=0.03)
    assert by_kernels(fast, slow).mean == pytest.approx(-known.mean)
    assert by_kernels(calibrated(*[0.1] * (LEAST_KERNELS - 1)), fast) == UNKNOWN
    assert by_kernels(known_platforms.load()["quartz"], fast) == UNKNOWN


def test_where_no_program_ran_on_both_kinds_kernels_give_a_wide_ratio() -> None:
    alone = KindRatios({}).between(OLD, NEW, "ada", kernels=KERNELS)
    assert alone is not None
    assert alone.mid == pytest.approx(math.log(1.6), abs=0.03)
    assert alone.half_width == pytest.approx(1.645 * math.hypot(0.2, 0.3), rel=0.15)
    assert (alone.programs, alone.kernels, alone.is_own) == (0, 17, False)


def test_programs_outweigh_the_kernels() -> None:
    known = site({(f"u{n}", "app"): 1.6 * math.exp(0.2 * math.sin(n)) for n in range(20)})
    wrong = KERNELS._replace(mean=math.log(0.5))
    for ask in (known.between(OLD, NEW, "ada", kernels=wrong), known.between(OLD, NEW, "ada")):
        assert ask is not None
        assert ask.programs == 20
        assert covers(ask, 1.6)
    turned = known.between(NEW, OLD, "ada", kernels=wrong._replace(mean=-wrong.mean))
    straight = known.between(OLD, NEW, "ada", kernels=wrong)
    assert turned is not None
    assert straight is not None
    assert turned.mid == pytest.approx(-straight.mid)
