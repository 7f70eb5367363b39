"""Training: deterministic by seed, and bad data is named before anything is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_profiles import QUICK, examples

from berth.pilot.errors import BerthError
from berth.predictor.families.program.bundle import Manifest
from berth.predictor.hardware import platforms
from berth.predictor.learning.programs.columns import LabelRows
from lab.ground.splits import folds
from lab.ground.trees_as_onnx import check_trees_agree, trees_to_onnx
from lab.kernels.evaluate_programs import by_kernel
from lab.kernels.examples import Example, columns
from lab.kernels.program_bundle import train
from lab.kernels.residual_model import Model, fit, fit_prior, held_out

ALL = platforms.shipped()


def run(made: list[Example], folder: Path, seed: int = 0) -> Manifest:
    return train(made, ALL, folder, seed=seed, command="test", figures={}, rounds=QUICK)


def test_the_same_seed_gives_the_same_bundle(tmp_path: Path) -> None:
    one, two = run(examples(), tmp_path / "a"), run(examples(), tmp_path / "b")
    assert one.id == two.id
    assert run(examples(), tmp_path / "c", seed=1).id != one.id


def test_all_rows_of_a_kernel_are_in_one_fold() -> None:
    kernels = [e.kernel for e in examples()]
    parts = folds(kernels, 5, seed=3)
    assert sorted(i for part in parts for i in part) == list(range(len(kernels)))
    for a in range(5):
        for b in range(a + 1, 5):
            assert not {kernels[i] for i in parts[a]} & {kernels[i] for i in parts[b]}


def test_the_prior_recovers_what_made_the_times() -> None:
    made = examples()
    data = columns(made, ALL["quartz"], ALL["epyc-genoa-vm"])
    shifted = replace(data, log_time=np.log(data.parallel_s) + 0.3 + 0.6 * data.log_efficiency)
    prior = fit_prior(shifted)
    assert prior.bias == pytest.approx(0.3, abs=0.02)
    assert prior.carry == pytest.approx(0.6, abs=0.03)


def test_no_model_is_fitted_on_the_kernel_that_it_predicts() -> None:
    data = columns(examples(), ALL["quartz"], ALL["epyc-genoa-vm"])
    seen: list[set[str]] = []

    def spy(rows: LabelRows) -> Model:
        seen.append(set(rows.kernels))
        return fit(rows, 0, rounds=QUICK)

    out = held_out(data, by_kernel(data.kernels), spy)
    names = sorted(set(data.kernels))
    assert seen == [set(names) - {name} for name in names]
    assert np.isfinite(out.log_time).all()


def test_onnx_says_what_the_trainer_says_also_with_gaps() -> None:
    data = columns(examples(), ALL["lassen-v100"], ALL["epyc-genoa-vm"])
    model = fit(data, 0, rounds=50)
    onnx = trees_to_onnx(model.residual, data.features.shape[1])
    assert check_trees_agree(onnx, model.residual, data.features) <= 1e-5


def test_a_model_that_converts_wrongly_is_never_written() -> None:
    data = columns(examples(), ALL["lassen-v100"], ALL["epyc-genoa-vm"])
    ours = fit(data, 0, rounds=50).residual
    theirs = fit(data, 0, rounds=5).residual
    onnx = trees_to_onnx(theirs, data.features.shape[1])
    with pytest.raises(BerthError, match="differs"):
        check_trees_agree(onnx, ours, np.asarray(data.features))
