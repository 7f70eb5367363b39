"""A program on a CPU without labels: its own time, by how fast the cores are."""

from __future__ import annotations

import math

import pytest
from toy_profiles import PLATFORM, profile

from berth.pilot.platform import CoreScore, Platform
from berth.predictor.core.prediction import Basis
from berth.predictor.families.program.between_cpus import UNKNOWN_DEVIATION, core_ratio
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.hardware import platforms

ALL = platforms.load()
HERE = ALL[PLATFORM]


def scored(integer: float, floating_point: float, deviation: float = 0.0) -> Platform:
    score = CoreScore(
        integer=integer, floating_point=floating_point, source="test", deviation=deviation
    )
    signature = HERE.signature.model_copy(update={"core_score": score, "kernel_times_s": {}})
    return HERE.model_copy(update={"name": f"core-{integer}", "signature": signature})


def test_branchy_programs_follow_the_integer_score_and_others_the_floating_point_score() -> None:
    home, there = scored(1.0, 1.0), scored(2.0, 1.0)
    ratios = [core_ratio(home, there, rate) for rate in (0.0, 1e-3, 1e-1)]
    found = [ratio.log_ratio for ratio in ratios]
    assert found[0] == 0.0
    assert found[1] == pytest.approx(-math.log(2) / 2)
    assert found[2] == pytest.approx(-math.log(2), rel=0.02)


def test_a_program_without_counters_goes_by_both_scores() -> None:
    ratio = core_ratio(scored(1.0, 1.0), scored(2.0, 0.5), None)
    assert ratio.log_ratio == pytest.approx(0.0)


def test_nodes_of_one_processor_are_compared_by_their_benchmark() -> None:
    slow = {name: 3.0 * seconds for name, seconds in HERE.signature.kernel_times_s.items()}
    signature = HERE.signature.model_copy(update={"core_score": None})
    home = HERE.model_copy(update={"processor": "AMD EPYC", "signature": signature})
    there = home.model_copy(
        update={"signature": signature.model_copy(update={"kernel_times_s": slow})}
    )
    ratio = core_ratio(home, there, None)
    assert ratio.log_ratio == pytest.approx(math.log(3.0))


def unknown() -> Platform:
    signature = HERE.signature.model_copy(update={"core_score": None, "kernel_times_s": {}})
    return HERE.model_copy(update={"name": "unknown", "signature": signature})


def test_rates_alone_tell_a_core_badly() -> None:
    faster = unknown().signature.model_copy(
        update={"int_ops_core_per_s": 2 * (HERE.signature.int_ops_core_per_s or 0.0)}
    )
    twice = unknown().model_copy(update={"signature": faster})
    for home in (scored(1.0, 1.0), unknown()):
        slow, fast = (core_ratio(home, there, None) for there in (unknown(), twice))
        assert slow.deviation == fast.deviation == UNKNOWN_DEVIATION
    assert core_ratio(unknown(), unknown(), None).log_ratio == 0.0


def test_two_scored_cpus_are_told_apart_from_a_pilot_on_an_unknown_one() -> None:
    one, two = (core_ratio(unknown(), scored(s, s), None) for s in (1.0, 2.0))
    assert one.log_ratio - two.log_ratio == pytest.approx(math.log(2))
    assert one.deviation == UNKNOWN_DEVIATION
    assert one.own_deviation == 0.0


@pytest.mark.parametrize("drop", [(), ("loads", "stores", "l1_load_misses", "llc_load_misses")])
def test_a_score_moves_the_time_and_its_doubt_the_interval(drop: tuple[str, ...]) -> None:
    predictor, own = Predictor.load(), profile(drop=drop)
    home, twice = scored(1.0, 1.0), scored(2.0, 2.0)
    doubtful = scored(2.0, 2.0, deviation=0.3)
    faster = predictor.predict(own, twice, reference=home)
    unsure = predictor.predict(own, doubtful.model_copy(update={"name": "x"}), reference=home)
    assert faster.basis is Basis.PRIOR
    assert faster.speedup.mid == pytest.approx(2.0, rel=0.05)
    assert 1.3 < faster.runtime_s.high / faster.runtime_s.mid < 1.5
    assert unsure.runtime_s.high > faster.runtime_s.high


def test_a_whole_node_is_answered_within_a_factor_of_four() -> None:
    found = Predictor.load().predict(profile(), ALL["rome-7742"], reference=HERE, cores=128)
    assert found.abstained is None or "interval" not in found.abstained
    assert found.runtime_s.high / found.runtime_s.mid < 4
