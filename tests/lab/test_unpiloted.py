"""Programs that nobody piloted: what ships finds the best kind where the program ran on such
kinds, and says nothing elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from berth.predictor.learning.cells import Hardware
from lab.site.unpiloted import Homes, Site, coarse_features, pair_average, regret, shipped_posterior

KINDS = ("c", "d", "g", "h")


def site(seed: int = 0) -> Site:
    """Two CPUs and two GPUs; a third of the applications are slow on GPUs."""
    rng = np.random.default_rng(seed)
    groups = tuple(f"app{n // 3}" for n in range(27))
    on_gpus = np.array([3.0 if n // 3 % 3 == 0 else -1.0 for n in range(27)])
    logs = rng.normal(0, 2, (27, 1)) + np.array([0.0, -0.5, 0.0, -0.7])
    logs[:, 2:] += on_gpus[:, None]
    places = tuple(Hardware(kind, "cpu" if kind in "cd" else "gpu") for kind in KINDS)
    return Site("toy", KINDS, places, groups, logs + rng.normal(0, 0.05, (27, 4)), logs[:, :1])


@pytest.mark.slow
def test_a_cpu_and_a_gpu_tell_where_a_program_belongs() -> None:
    known = site()
    homes = Homes(known)
    assert regret(known, homes, [[0, 2]]) == pytest.approx(1.0, abs=0.02)
    for baseline in (pair_average, coarse_features):
        assert regret(known, baseline, [[0]]) > 1.5
    assert regret(known, shipped_posterior, [[0, 2]]) < regret(known, pair_average, [[0, 2]])


@pytest.mark.slow
def test_nothing_is_said_of_kinds_whose_executables_never_ran() -> None:
    known = site()
    predicted = Homes(known)(known, "app0", [0])
    assert np.isfinite(predicted[:, :2]).all()
    assert np.isinf(predicted[:, 2:]).all()
    assert predicted[0, 0] == known.log_seconds[0, 0]


@pytest.mark.slow
def test_intervals_of_ratios_hold_for_applications_left_out() -> None:
    known = site()
    homes = Homes(known)
    for by_kernels in (False, True):
        assert homes.coverage(known, by_kernels=by_kernels) > 0.9, "of few ratios"
