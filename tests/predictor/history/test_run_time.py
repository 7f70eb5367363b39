"""Run times of next jobs from past jobs: what is learnt, what is promised, what is forgotten."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from berth.predictor.learning.history import AskedJob, JobEnd, RunTime, RunTimePredictor
from berth.predictor.learning.history import run_time as module
from berth.predictor.learning.history.evidence import WeightedRuns
from berth.predictor.learning.history.intervals import Levels, Nested
from berth.predictor.learning.history.rings import Ring, Rings, column_of
from berth.predictor.learning.history.run_time import best

ASKED = AskedJob("alice", 0.0, 8, 3600.0, 2e9, "physics", "align")


def asked(moment_s: float, **changes: object) -> AskedJob:
    return replace(ASKED, submit_s=moment_s, **changes)  # type: ignore[arg-type]


def taught(*runtimes_s: float, predictor: RunTimePredictor | None = None) -> RunTimePredictor:
    found = predictor or RunTimePredictor()
    for number, runtime_s in enumerate(runtimes_s):
        moment_s = 10_000.0 * number
        found.ended(str(number), JobEnd(asked(moment_s), moment_s + runtime_s, runtime_s))
    return found


def test_jobs_that_take_the_same_time_go_on_to() -> None:
    said = taught(*[600.0] * 20).predict(asked(1e6), 1e6)
    assert said.runtime_s.mid == pytest.approx(600.0)
    assert said.runtime_s.low <= 600.0 <= said.runtime_s.high
    assert said.runs == 20


def test_the_same_shape_counts_more_than_another() -> None:
    predictor = taught(*[600.0] * 10)
    for number in range(10):
        moment_s = 200_000.0 + 10_000.0 * number
        other = asked(moment_s, cores=256, request_s=36_000.0)
        predictor.ended(f"o{number}", JobEnd(other, moment_s + 9_000.0, 9_000.0))
    assert predictor.predict(asked(1e6), 1e6).runtime_s.mid == pytest.approx(600.0)
    large = asked(1e6, cores=256, request_s=36_000.0)
    assert predictor.predict(large, 1e6).runtime_s.mid == pytest.approx(9_000.0)


def test_a_known_other_name_counts_less() -> None:
    predictor = taught(*[600.0] * 5)
    for number in range(5):
        moment_s = 60_000.0 + 10_000.0 * number
        other = asked(moment_s, name="sort")
        predictor.ended(f"o{number}", JobEnd(other, moment_s + 60.0, 60.0))
    assert predictor.predict(asked(2e5), 2e5).runtime_s.mid == pytest.approx(600.0)


def test_running_jobs_of_the_same_shape_rule_out_short_times() -> None:
    predictor = taught(*[30.0, 3000.0] * 10)
    for number in range(20):
        predictor.started(f"r{number}", asked(1e6), 1e6)
    said = predictor.predict(asked(1e6), 1e6 + 600.0)
    assert said.runtime_s.mid == pytest.approx(3000.0)


def test_nothing_known_is_not_trusted_and_follows_the_request() -> None:
    said = RunTimePredictor().predict(ASKED, 0.0)
    assert (said.runs, said.trusted) == (0, False)
    assert said.runtime_s.mid == pytest.approx(3600.0)


def test_another_user_teaches_little_and_never_counts_as_own() -> None:
    said = taught(*[600.0] * 50).predict(replace(ASKED, user="mallory"), 1e6)
    assert (said.runs, said.trusted) == (0, False)


def test_a_flood_of_another_user_moves_no_own_forecast_far() -> None:
    predictor = taught(*[600.0] * 20)
    before = predictor.predict(asked(1e6), 1e6).runtime_s.mid
    for number in range(3_000):
        fake = asked(3e5 + number, user="mallory", account="other")
        predictor.ended(f"f{number}", JobEnd(fake, 3e5 + number + 5.0, 5.0))
    assert predictor.predict(asked(1e6), 1e6).runtime_s.mid == pytest.approx(before)


def test_the_same_jobs_in_the_same_order_give_the_same_prediction() -> None:
    said = [taught(10.0, 500.0, 70.0, 70.0, 900.0).predict(asked(1e6), 1e6) for _ in range(2)]
    assert said[0] == said[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"request_s": None, "request_bytes": None, "account": "", "name": ""},
        {"request_s": 0.0, "cores": 0},
        {"submit_s": 5e9},
        {"user": ""},
        {"name": "\udcff"},
    ],
)
def test_odd_jobs_are_taken_as_they_are(changes: dict[str, object]) -> None:
    predictor = RunTimePredictor()
    odd = replace(ASKED, **changes)  # type: ignore[arg-type]
    for number, runtime_s in enumerate((0.0, 5.0, 1e9)):
        predictor.ended(str(number), JobEnd(odd, 100.0, runtime_s, completed=False))
    said: RunTime = predictor.predict(odd, 50.0)  # before the last one ended: a clock jumped
    assert 0 < said.runtime_s.low <= said.runtime_s.mid <= said.runtime_s.high < math.inf


def test_intervals_cover_nine_of_ten_in_the_long_run() -> None:
    generator = np.random.default_rng(7)
    predictor, inside = RunTimePredictor(), []
    for number in range(1_500):
        moment_s = 5_000.0 * number
        one = asked(moment_s)
        said = predictor.predict(one, moment_s, job_id=str(number)).runtime_s
        runtime_s = float(np.exp(generator.normal(6.0, 0.8)))
        inside.append(said.low <= runtime_s <= said.high)
        predictor.ended(str(number), JobEnd(one, moment_s + runtime_s, runtime_s))
    assert 0.85 <= np.mean(inside[500:]) <= 0.95


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEYS", 40)
    predictor = RunTimePredictor()
    for number in range(200):
        one = asked(float(number), user=f"u{number}", account=f"a{number}")
        predictor.started(str(number), one, float(number))
        predictor.ended(str(number), JobEnd(one, number + 10.0, 10.0))
    assert len(predictor) == 40


def test_a_ring_holds_the_newest_and_knows_their_order() -> None:
    ring = Ring(6)
    for number in range(1, 10):
        ring.add(column_of(JobEnd(ASKED, 0.0, float(number))))
    times = np.exp(ring.columns[0])
    newest_first = times[np.argsort(ring.log_ranks)]
    assert np.allclose(newest_first, [9, 8, 7, 6, 5, 4])
    assert (len(ring), ring.seen) == (6, 9)


def test_keys_unused_for_longest_are_dropped_first() -> None:
    rings = Rings(2)
    column = column_of(JobEnd(ASKED, 0.0, 1.0))
    for key in ("a", "b", "a", "c"):
        rings.add(key, column, 4)
    assert rings.get("b") is None
    assert rings.get("a") is not None


def test_the_best_time_has_the_highest_expected_ratio() -> None:
    logs = np.log([10.0, 11.0, 12.0, 1000.0])
    weights = np.array([0.2, 0.2, 0.2, 0.4])
    mid, expected = best(WeightedRuns(logs, weights, 4))
    ratios = np.exp(-np.abs(logs[:, None] - logs[None, :])) @ weights
    assert expected == pytest.approx(ratios.max())
    assert mid == logs[ratios.argmax()]


def test_levels_nest_and_the_level_of_a_time_holds_it_just() -> None:
    logs = np.log(np.array([10.0, 20.0, 40.0, 400.0]))
    nested = Nested(WeightedRuns(logs, np.full(4, 0.25), 4), float(logs[1]))
    ends = [nested.at(level) for level in np.arange(0.0, 9.01, 0.25)]
    assert all(a[0] >= b[0] and a[1] <= b[1] for a, b in pairwise(ends))
    for value in (0.5, 12.0, 300.0, 5_000.0):
        level = nested.level_of(math.log(value))
        low, high = nested.at(level)
        assert low - 1e-9 <= math.log(value) <= high + 1e-9
    assert nested.level_of(50.0) > 9.0


def test_a_block_that_missed_together_moves_the_level_no_further_than_it_must() -> None:
    levels = Levels()
    for _ in range(2_000):
        levels.learn("alice", 6.0, missed=True)
    assert 5.0 < levels.of("alice") < 7.0
