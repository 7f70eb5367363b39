"""CPUs left out: figures of right and of wrong guesses; Berth beside the plain baselines."""

from __future__ import annotations

import numpy as np
import pytest

from berth.pilot.errors import ToolMissing
from berth.predictor.hardware.core_speed import core_scores
from berth.predictor.hardware.processor import processors
from lab.cpus.core_scores import scores_without
from lab.cpus.evaluate_cpus import Guess, baselines, berth, figures, score_settings
from lab.datasets.cpu_programs import CpuPrograms, cpu_programs

CPUS = ("epyc-7742", "xeon-8358p", "graviton3")


def made(seconds: np.ndarray) -> CpuPrograms:
    ones = np.ones_like(seconds)
    count = seconds.shape[1]
    return CpuPrograms(
        CPUS, tuple(str(500 + i) for i in range(count)), np.arange(count) % 2.0, seconds,
        1e12 * ones, 1e-3 * ones, 3e9 * ones,
    )  # fmt: skip


def test_a_right_guess_has_no_error_and_the_right_order() -> None:
    data = made(np.array([[100.0, 200.0], [150.0, 100.0], [50.0, 400.0]]))
    log_s = np.broadcast_to(np.log(data.seconds), (3, 3, 2))
    found = figures(data, Guess(log_s, np.full((3, 3, 2), 0.1)))
    assert found.error == pytest.approx(0)
    assert (found.pairs, found.coverage) == (1.0, 1.0)
    assert figures(data, Guess(-log_s)).pairs == 0.0


def test_one_factor_a_cpu_is_learnt_from_the_other_programs() -> None:
    data = made(np.outer([1.0, 2.0, 0.5], [100.0, 200.0, 300.0]))
    guess = baselines(data)["own time x factor of the other programs"]
    assert figures(data, guess).error == pytest.approx(0, abs=1e-9)


def test_a_cpu_that_is_left_out_does_not_tell_its_own_score() -> None:
    try:
        left_out, all_known = scores_without("kunpeng920"), scores_without()
    except ToolMissing as absent:
        pytest.skip(str(absent))
    sheet = processors()["kunpeng920"]
    assert left_out.of(sheet).deviation > 0
    assert all_known.of(sheet).deviation == 0
    core = [next(c for c in t.cores if c.name == sheet.core) for t in (left_out, all_known)]
    assert core[0].speed != core[1].speed


def test_the_shipped_scores_are_those_that_the_lists_give() -> None:
    try:
        derived = scores_without()
    except ToolMissing as absent:
        pytest.skip(str(absent))
    assert derived == core_scores()


@pytest.mark.slow
def test_berth_beats_the_plain_baselines_with_and_without_a_score() -> None:
    try:
        data = cpu_programs()
    except ToolMissing as absent:
        pytest.skip(str(absent))
    plain = {name: figures(data, guess) for name, guess in baselines(data).items()}
    ours = {
        name: figures(data, berth(data, scores)) for name, scores in score_settings(data).items()
    }
    published = ours["Berth, published score"]
    assert published.error <= plain["own time x published score (suite known)"].error + 0.002
    assert published.error <= 0.13
    assert published.coverage is not None
    assert 0.87 <= published.coverage <= 0.93
    others = ours["Berth, score of other programs"]
    assert others.error <= plain["own time x factor of the other programs"].error
    assert ours["Berth, no score"].error < plain["clock ratio"].error
