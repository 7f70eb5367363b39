"""Rates on several accelerators: what is learnt of made-up ones, and what is shipped."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from click.testing import CliRunner

from berth.pilot.errors import BerthError
from berth.predictor.families.graph.graph_family import shipped_several_gpus
from lab.__main__ import lab
from lab.datasets.mlperf import Rate, rates
from lab.latency.several_gpus import OFFLINE, fit, held_out_errors, pairs


def made(lost: float) -> list[Rate]:
    """A tenth of a percent apart by model; ``lost`` with each doubling."""
    return [
        Rate(f"gpu{kind}", number, "TensorRT 10", f"model-{m}", OFFLINE,
             number * (1 - lost) ** math.log2(number) * (1 + 0.001 * m * (number > 1)))
        for kind in range(4) for m in range(3) for number in (1, 2, 4, 8)
    ]  # fmt: skip


def test_a_loss_is_found_and_beats_n_times_one() -> None:
    every = pairs(made(0.05))
    assert len(every) == 4 * 3 * 6
    assert fit(every).log_loss == pytest.approx(-math.log(0.95), abs=0.002)
    found = held_out_errors(every)
    assert found.mean_error < 0.005 < found.linear_error
    assert (found.accelerators, found.coverage) == (4, 1.0)


def test_other_scenarios_and_single_numbers_make_no_pairs() -> None:
    assert pairs([replace(one, scenario="server") for one in made(0.0)]) == []
    assert pairs([one for one in made(0.0) if one.accelerators == 2]) == []


def test_what_is_shipped_is_what_the_data_say() -> None:
    try:
        mine = pairs(rates())
    except BerthError as error:
        pytest.skip(error.message)
    learnt, file = fit(mine), shipped_several_gpus()
    assert (learnt.log_loss, learnt.log_width) == pytest.approx((file.log_loss, file.log_width))
    assert (len(mine), max(pair.more for pair in mine)) == (file.rows, file.most)
    done = CliRunner().invoke(lab, ["several-gpus"])
    assert "n times one (baseline)" in done.output
