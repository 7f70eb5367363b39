"""Algorithm 1, signatures of platforms, anchors of AIWC."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_rows import toy

from berth.predictor.hardware import platforms
from lab.published.xamm.benchmarks import from_platforms, signatures
from lab.published.xamm.machine_models import machine_model

RUNS = np.array([[3.0, 0.0, -1.0], [1.0, 0.0, -3.0]])


def test_algorithm_1_step_by_step() -> None:
    damped = np.log1p([np.sqrt(10), 0, np.sqrt(10)])
    assert machine_model(RUNS) == pytest.approx(damped - damped.max())


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=5))
def test_the_greatest_is_0_and_all_are_finite(runs) -> None:
    vector = machine_model(np.array(runs))
    assert np.isfinite(vector).all()
    assert vector.max() == 0


@pytest.mark.parametrize("runs", [np.empty((0, 3)), np.array([[1.0, np.nan]]), np.ones(3)])
def test_no_model_without_whole_runs(runs) -> None:
    with pytest.raises(ValueError, match="one run at least"):
        machine_model(runs)


def test_every_shipped_platform_has_benchmark_data_of_a_core_and_of_the_whole() -> None:
    known = platforms.load()
    found = from_platforms(known.values())
    assert found.complete() == tuple(known)
    dram = found.features.index("dram")
    for name, samples in found.samples.items():
        assert samples.shape == (2, len(found.features))
        core, whole = samples[:, dram]
        assert core <= whole, name


def test_anchors_that_are_not_among_the_rows_are_not_in_the_signature() -> None:
    rows = replace(toy(), kernels=tuple("kernel" for _ in range(12)))
    anchors = (("app0", "kernel"), ("app1", "kernel"))
    whole = signatures(rows, anchors)
    assert whole.features == ("app0/kernel", "app1/kernel")
    assert whole.samples["gpu"].shape == (3, 2)
    assert whole.samples["cpu"].tolist() == np.zeros((3, 2)).tolist()
    rest = rows.take([i for i, a in enumerate(rows.applications) if a != "app0"])
    assert signatures(rest, anchors).features == ("app1/kernel",)


def test_a_platform_nobody_ran_anchors_on_has_no_signature() -> None:
    rows = toy()
    times = rows.log_seconds.copy()
    times[:, 2] = np.nan
    found = signatures(replace(rows, log_seconds=times), (("app0", "kernel"),))
    assert found.complete() == ("cpu", "gpu")
