"""Effects and the process find what was put in, and peek at nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from berth.predictor.families.language_model.candidates import Novelty
from berth.predictor.families.language_model.physics import HEADS, OFFLINE, TERMS
from berth.predictor.families.language_model.residual import covariance
from lab.llm.cases import Cases
from lab.llm.effects import fit_effects, physics
from lab.llm.held_out import (
    ACCELERATORS,
    BLOCKS,
    FRAMEWORKS,
    LOADS,
    MODELS,
    ROWS,
    Fit,
    by_relatives,
    fit,
    folds,
    leave_out,
)
from lab.llm.process import KERNELS, fit_process

Campaign = Callable[..., Cases]


@pytest.fixture(scope="module")
def learnt(campaign: Campaign) -> tuple[Cases, Fit]:
    table = campaign()
    return table, fit(table, 0)


@pytest.mark.parametrize("head", HEADS)
def test_effects_bring_physics_near_what_was_measured(campaign: Campaign, head: str) -> None:
    table = campaign(head)
    effects = fit_effects(table)
    assert effects.terms == TERMS[head]
    off = np.abs(physics(table, effects) - table.log_seconds)
    assert np.median(off) < 0.15


def test_the_process_finds_what_physics_misses(learnt: tuple[Cases, Fit]) -> None:
    table, found = learnt
    _, _, alone, both = found.log_seconds(table).T
    missed = np.abs(alone - table.log_seconds).mean()
    assert np.abs(both - table.log_seconds).mean() < min(0.03, 0.5 * missed)


def test_an_accident_pulls_little(campaign: Campaign) -> None:
    table = campaign()
    missed = table.log_seconds - physics(table, fit_effects(table))
    spoilt = missed.copy()
    spoilt[20] += 3.0
    process, noises = fit_process(KERNELS[OFFLINE], 9e-4, table.ties, table.numbers, spoilt)
    assert noises[20] == noises.max() > 10 * np.median(noises)
    beside = process(table.ties[21:22], table.numbers[21:22])[0] - missed[21]
    assert abs(beside) < 0.1


def test_accidents_get_the_same_noise_as_by_inverting_anew(learnt: tuple[Cases, Fit]) -> None:
    table, found = learnt
    missed = table.log_seconds - physics(table, found.effects)
    missed[[20, 90]] += 2.0
    process, noises = fit_process(KERNELS[OFFLINE], 9e-4, table.ties, table.numbers, missed)
    among = covariance(KERNELS[OFFLINE], *(table.ties, table.numbers) * 2)
    weights = np.linalg.solve(among + np.diag(noises), missed - np.median(missed))
    assert process.weights == pytest.approx(weights, rel=1e-6, abs=1e-6)


@pytest.mark.slow
def test_what_is_left_out_teaches_nothing(campaign: Campaign) -> None:
    table = campaign()
    part = folds(table, BLOCKS, 0)[:1]
    before = leave_out(table, part, 0)
    changed = table.log_seconds.copy()
    changed[part[0].test] += 5.0
    after = leave_out(replace(table, log_seconds=changed), part, 0)
    assert after.by_rule == pytest.approx(before.by_rule)


@pytest.mark.parametrize("split", [ROWS, BLOCKS, MODELS, ACCELERATORS])
def test_every_row_is_left_out_once_and_its_group_with_it(campaign: Campaign, split: str) -> None:
    table = campaign()
    found = folds(table, split, 0)
    assert sorted(i for part in found for i in part.test) == list(range(len(table)))
    groups = {
        BLOCKS: table.blocks,
        MODELS: table.models,
        ACCELERATORS: table.accelerators,
    }.get(split)
    for part in found if groups is not None else ():
        assert groups is not None
        assert not set(np.array(groups)[part.test]) & set(np.array(groups)[part.train])


def test_an_unseen_accelerator_takes_its_relative(campaign: Campaign) -> None:
    table = campaign()
    names = np.array(table.accelerators)
    asked, learnt = table[names == "h100-sxm-80gb"], table[names != "h100-sxm-80gb"]
    assert set(by_relatives(learnt, asked).accelerators) == {"a100-sxm-40gb"}
    alone = table[names == "mi300x-192gb"]
    learnt = table[names != "mi300x-192gb"]
    assert set(by_relatives(learnt, alone).accelerators) == {""}
    part = [one for one in folds(table, ACCELERATORS, 0) if names[one.test[0]] == "mi300x-192gb"]
    held = leave_out(table, part, 0)
    assert set(held.novelty) == {Novelty.MAKER}


def test_a_server_that_was_left_out_takes_anothers_measurements(campaign: Campaign) -> None:
    table = campaign()
    assert not folds(table, FRAMEWORKS, 0)  # llama.cpp is no such server
    names = np.array(table.accelerators)
    renamed = tuple(
        "sglang" if name == "h100-sxm-80gb" else own
        for name, own in zip(names, table.frameworks, strict=True)
    )
    two = replace(
        table,
        frameworks=renamed,
        codes=table.codes.model_copy(update={"frameworks": tuple(sorted(set(renamed)))}),
    )
    sglang, vllm = folds(two, FRAMEWORKS, 0)
    asked = by_relatives(two[sglang.train], two[sglang.test])
    assert set(asked.frameworks) == {"vllm"}
    assert set(asked.ties[:, 1].tolist()) == {two.codes.frameworks.index("vllm")}
    assert set(names[vllm.test]) == {"a100-sxm-40gb", "mi300x-192gb"}


def test_the_ends_of_the_loads_are_left_out_in_turn(campaign: Campaign) -> None:
    table = campaign()
    found = folds(table, LOADS, 0)
    assert len(found) == 4  # prompts and sequences; all have the same ratio
    lengths = np.array([case.load.input_tokens for case in table.cases])
    assert set(lengths[found[0].test]) == {128}
    assert set(lengths[found[1].test]) == {2048}
    held = leave_out(table, found[:1], 0)
    assert set(held.novelty) == {Novelty.LOAD}
