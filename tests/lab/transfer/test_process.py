"""The process over platforms: a covariance, its evidence, and what samples make of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from berth.predictor.families.graph.transfer.cases import NOBODY
from berth.predictor.families.graph.transfer.kernel import FeatureScale, Own
from lab.transfer import platform_kernel as learn
from lab.transfer.transfer_cases import Measured
from lab.transfer.transfer_methods import METHODS


@pytest.fixture(scope="module")
def known(tiny_table: Measured) -> Measured:
    return tiny_table[np.flatnonzero(tiny_table.device != "5090")]


@pytest.fixture(scope="module")
def new(tiny_table: Measured) -> Measured:
    return tiny_table[np.flatnonzero(tiny_table.device == "5090")]


@pytest.fixture(scope="module")
def start(tiny_table: Measured) -> learn.TransferKernel:
    values = np.concatenate((learn.AMPLITUDES.ravel(), [1.0, 1.0, 0.05]))
    return learn.kernel(FeatureScale.of(tiny_table.cases), values)


def test_a_covariance_is_symmetric_and_has_no_negative_variance(
    tiny_table: Measured, start: learn.TransferKernel
) -> None:
    found = start.covariance(tiny_table.cases, tiny_table.cases)
    assert found == pytest.approx(found.T)
    assert np.linalg.eigvalsh(found).min() > -1e-9


def test_cases_of_nobody_share_no_device_stack_or_model(
    tiny_table: Measured, start: learn.TransferKernel
) -> None:
    cases = tiny_table.cases
    alone = np.full(len(cases), NOBODY)
    nobody = replace(cases, device=alone, stack=alone, model=alone)
    amplitudes = start.amplitudes.copy()
    amplitudes[:4] = 0
    own = replace(start, amplitudes=amplitudes)
    assert own.covariance(nobody, cases) == pytest.approx(0)
    assert own.covariance(cases, cases).max() > 0


def test_a_shift_is_a_constant_of_the_device_alone(
    tiny_table: Measured, start: learn.TransferKernel
) -> None:
    cases = tiny_table.cases
    plain = Own.as_learnt(len(cases))
    moved = start.covariance(cases, cases, replace(plain, shift=np.full(len(cases), 0.7)))
    same = cases.device[:, None] == cases.device
    assert moved - start.covariance(cases, cases, plain) == pytest.approx(0.49 * same)


def test_the_gradient_of_the_evidence_is_the_slope_of_the_evidence(known: Measured) -> None:
    part = known[np.arange(0, len(known), 4)]
    first = np.concatenate((np.log(learn.AMPLITUDES).ravel(), np.log([1.0, 1.0, 0.05])))
    loss = learn._loss(
        part.cases, part.residual - part.residual.mean(), FeatureScale.of(part.cases), first
    )
    at = first + 0.1 * np.random.default_rng(0).standard_normal(len(first))
    _, gradient = loss(at)
    for place in range(len(at)):
        step = np.zeros(len(at))
        step[place] = 1e-5
        slope = (loss(at + step)[0] - loss(at - step)[0]) / 2e-5
        assert gradient[place] == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_learning_is_deterministic_and_no_worse_than_its_start(known: Measured) -> None:
    first, second = learn.learn(known, seed=3), learn.learn(known, seed=3)
    assert (first.amplitudes == second.amplitudes).all()
    assert first.noise == second.noise


def test_samples_bring_predictions_to_what_was_measured(
    known: Measured, new: Measured, start: learn.TransferKernel
) -> None:
    joint = learn.fit(known, start).joint(new.cases)
    nothing = np.zeros(0, np.int64)
    before = np.abs(joint.moved(nothing, np.zeros(0)).mean - new.residual)
    given = np.arange(0, len(new), 3)
    after = np.abs(joint.moved(given, new.residual[given]).mean - new.residual)
    rest = np.setdiff1d(np.arange(len(new)), given)
    assert after[given].mean() < 0.5 * before[given].mean()
    assert after[rest].mean() < 0.5 * before[rest].mean()


def test_a_platform_far_from_all_others_is_told_by_one_constant(
    known: Measured, new: Measured, start: learn.TransferKernel
) -> None:
    joint = learn.fit(known, start).joint(new.cases)
    given = np.arange(0, len(new), 6)
    off = joint.moved(given, new.residual[given] + 3.0)
    assert off.shift > 0.4
    assert off.mean == pytest.approx(new.residual + 3.0, abs=0.6)


@pytest.mark.parametrize("together", [False, True])
def test_samples_left_out_are_predicted_as_if_they_had_not_been_given(
    known: Measured, new: Measured, start: learn.TransferKernel, *, together: bool
) -> None:
    joint = learn.fit(known, start).joint(new.cases)
    given = np.arange(0, len(new), 4)
    groups = new.cases.model[given] if together else np.arange(len(given))
    moved = joint.moved(given, new.residual[given], groups if together else None)
    whole = joint.shared + moved.novelty_scale**2 * joint.own + moved.shift**2
    for place, sample in enumerate(given):
        others = given[groups != groups[place]]
        matrix = whole[np.ix_(others, others)] + moved.noise**2 * np.eye(len(others))
        weights = np.linalg.solve(matrix, new.residual[others] - joint.mean[others])
        alone = joint.mean[sample] + whole[sample, others] @ weights
        assert moved.left_out[place] == pytest.approx(alone, abs=1e-6)


def test_advice_names_different_cases_and_leaves_less_doubt_than_the_first_ones(
    known: Measured, new: Measured, start: learn.TransferKernel
) -> None:
    joint = learn.fit(known, start).joint(new.cases)
    pool = np.arange(len(new))
    advised = joint.advised(pool, 4)
    assert len(set(advised.tolist())) == 4

    def doubt(given: np.ndarray) -> float:
        whole = joint.shared + joint.own
        across = whole[:, given]
        matrix = whole[np.ix_(given, given)] + joint.noise**2 * np.eye(len(given))
        return float(np.trace(whole - across @ np.linalg.solve(matrix, across.T)))

    assert doubt(advised) < doubt(pool[:4])
    assert len(joint.advised(pool[:2], 10)) == 2


@pytest.mark.parametrize("method", METHODS, ids=lambda one: one.name)
def test_every_method_answers_with_and_without_samples(
    method: object, known: Measured, new: Measured, start: learn.TransferKernel
) -> None:
    if method.name == "trees":  # type: ignore[attr-defined]
        pytest.importorskip("xgboost")
    guess = method.fit(known, new.cases, start)  # type: ignore[attr-defined]
    nothing = guess(np.zeros(0, np.int64), np.zeros(0))
    given = np.arange(0, len(new), 3)
    told = guess(given, new.residual[given])
    assert nothing.shape == told.shape == (len(new),)
    assert np.isfinite(nothing).all()
    assert np.abs(told - new.residual).mean() < np.abs(nothing - new.residual).mean()
