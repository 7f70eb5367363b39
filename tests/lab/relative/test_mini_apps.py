"""Mini-apps from benchmark rates: models that hold are found, held-out platforms teach nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from berth.pilot.errors import ToolMissing
from lab.datasets import machines
from lab.datasets.machines import KERNELS, PEAKS, MiniApps
from lab.relative.mini_apps import DOT, RATE_MODELS, columns, evaluate_apps, predict

NAMES = ("bdw", "knl", "k20", "p100", "skl", "v100")


def made(model: str) -> MiniApps:
    """Six platforms whose times follow one rate exactly."""
    rates = np.random.default_rng(0).uniform(1e11, 1e12, (len(NAMES), len(KERNELS)))
    data = MiniApps(NAMES, rates, {})
    seconds = 1e13 / np.exp(columns(data)[model])
    return replace(data, seconds={"app": seconds})


@pytest.mark.parametrize("model", ["triad", "dot", "flops_f32"])
def test_a_model_that_holds_is_found(model: str) -> None:
    (found,) = evaluate_apps(made(model))
    assert found.median_error["best model"] == pytest.approx(0, abs=1e-6)
    assert found.median_error["nested"] == pytest.approx(0, abs=1e-6)
    assert sum(found.chosen.values()) == 15


def test_a_platform_asked_for_teaches_nothing() -> None:
    data = made("triad")
    table = columns(data)
    for model in RATE_MODELS:
        before, after = (
            predict(model, table, log_time, [0, 1, 2, 3], [4, 5])
            for log_time in (
                np.log(data.seconds["app"]),
                np.log(data.seconds["app"]) + np.array([0, 0, 0, 0, 5, -5]),
            )
        )
        assert np.array_equal(before, after)


def test_platforms_without_a_time_are_left_out() -> None:
    data = made("dot")
    times = data.seconds["app"].copy()
    times[2] = np.nan
    (found,) = evaluate_apps(replace(data, seconds={"app": times}))
    assert found.platforms == ("bdw", "knl", "p100", "skl", "v100")


def test_the_data_set_joins_and_reproduces_triad_scaling() -> None:
    try:
        data = machines.mini_apps()
    except ToolMissing as missing:
        pytest.skip(str(missing))
    assert set(data.platforms) == set(PEAKS)
    counts = {app: int(np.isfinite(t).sum()) for app, t in data.seconds.items()}
    assert counts == {"cloverleaf": 18, "minifmm": 9, "neutral": 9, "tealeaf": 11}
    here = np.flatnonzero(np.isfinite(data.seconds["tealeaf"]))
    work = np.log(data.seconds["tealeaf"][here]) + columns(data)[DOT.rate][here]
    apart = work[:, None] - work[None, :]
    off = np.abs(np.expm1(apart[~np.eye(len(here), dtype=bool)]))
    assert np.median(off) < 0.08
