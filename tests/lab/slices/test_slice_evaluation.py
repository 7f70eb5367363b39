"""The bars on the public measurements, on models that nothing was fitted on."""

from __future__ import annotations

import numpy as np
import pytest

from berth.predictor.families.history.times_there import MEMORY_MARGIN
from berth.predictor.families.slices.bundle import verify
from lab import datasets
from lab.datasets.mig import MISO, PARVAGPU
from lab.slices.slice_cases import (
    fits_figures,
    inference_cases,
    pair_cases,
    training_cases,
)
from lab.slices.slice_errors import left_out

pytestmark = pytest.mark.skipif(
    not all((datasets.folder() / d.path).is_file() for d in (MISO, PARVAGPU)),
    reason=f"needs {MISO.path} and {PARVAGPU.path}: set {datasets.FOLDER_VARIABLE}",
)


def test_every_row_that_ran_is_there() -> None:
    sets = (training_cases(), inference_cases(), pair_cases())
    assert [sum(len(c.measured) for c in cases) for cases in sets] == [113, 1324, 323]


def test_no_slice_that_was_predicted_to_fit_failed() -> None:

    found = fits_figures()
    assert found.predicted_but_failed == 0
    assert found.refused_and_failed == 15
    assert found.predicted_and_ran == 130
    assert fits_figures(MEMORY_MARGIN).predicted_but_failed == 0


def test_the_shipped_bundle_is_of_these_files() -> None:

    assert verify().training.sources == {d.path: d.sha256 for d in (MISO, PARVAGPU)}


@pytest.mark.parametrize(
    ("method", "median", "mean"),
    [("use", 0.051, 0.086), ("gpu-use", 0.16, 0.24), ("batches", 0.067, 0.162)],
)
def test_models_that_were_left_out(method: str, median: float, mean: float) -> None:
    held = left_out(method)
    off = np.abs(np.expm1(held.predicted - held.measured))
    assert float(np.median(off)) <= median
    assert float(off.mean()) <= mean
