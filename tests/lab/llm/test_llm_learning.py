"""Effects and the process find what was put in, say what their ONNX says, and peek at nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest

from berth.pilot.errors import BerthError
from berth.predictor.families.language_model.physics import HEADS, OFFLINE, TERMS
from berth.predictor.families.language_model.residual import Residual
from berth.predictor.families.language_model.situation import Situation
from lab.llm.cases import Cases
from lab.llm.effects import fit_effects, physics
from lab.llm.process import TERMS as KERNELS
from lab.llm.process import fit_process
from lab.llm.process_onnx import check_agreement, to_onnx
from lab.llm.situations import (
    ACCELERATORS,
    BLOCKS,
    MODELS,
    PAIRS,
    ROWS,
    SPLITS,
    Fit,
    Held,
    by_relatives,
    coverage,
    fit,
    folds,
    leave_out,
    predicted,
    process_helps,
    width,
)

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
    alone, both = found.log_seconds(table).T
    missed = np.abs(alone - table.log_seconds).mean()
    assert np.abs(both - table.log_seconds).mean() < min(0.03, 0.5 * missed)


def test_an_accident_pulls_little(campaign: Campaign) -> None:
    table = campaign()
    missed = table.log_seconds - physics(table, fit_effects(table))
    spoilt = missed.copy()
    spoilt[20] += 3.0
    process, noises = fit_process(
        KERNELS[OFFLINE], 9e-4, table.ties, table.numbers, spoilt, rows=100
    )
    assert noises[20] == noises.max() > 10 * np.median(noises)
    beside = process(table.ties[21:22], table.numbers[21:22])[0] - missed[21]
    assert abs(beside) < 0.1


def test_onnx_says_what_the_process_says(learnt: tuple[Cases, Fit]) -> None:
    table, found = learnt
    raw = to_onnx(found.process)
    assert check_agreement(raw, found.process, table.ties, table.numbers) < 1e-6
    served = Residual(onnxruntime.InferenceSession(raw, providers=["CPUExecutionProvider"]))
    ours = served(table.ties[:5], table.numbers[:5])
    assert ours == pytest.approx(found.process(table.ties[:5], table.numbers[:5]), abs=1e-6)
    assert served(table.ties[:0], table.numbers[:0]).size == 0


def test_another_onnx_is_never_written(learnt: tuple[Cases, Fit]) -> None:
    table, found = learnt
    other = replace(found.process, mean=found.process.mean + 1)
    with pytest.raises(BerthError, match="differs"):
        check_agreement(to_onnx(found.process), other, table.ties, table.numbers)


@pytest.mark.slow
def test_what_is_left_out_teaches_nothing(campaign: Campaign) -> None:
    table = campaign()
    part = folds(table, BLOCKS, 0)[:1]
    before = leave_out(table, part, 0)
    changed = table.log_seconds.copy()
    changed[part[0].test] += 5.0
    after = leave_out(replace(table, log_seconds=changed), part, 0)
    assert after.process == pytest.approx(before.process)


@pytest.mark.parametrize("split", SPLITS)
def test_every_row_is_left_out_once_and_its_group_with_it(campaign: Campaign, split: str) -> None:
    table = campaign()
    found = folds(table, split, 0)
    assert sorted(i for part in found for i in part.test) == list(range(len(table)))
    pairs = table.groups("accelerators", "frameworks")
    groups = {
        BLOCKS: table.blocks,
        MODELS: table.models,
        PAIRS: pairs,
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
    assert set(held.situation) == {Situation.NEW.value}


def _held(situation: Situation, blocks: int) -> Held:
    rows = np.arange(2000)
    return Held(
        row=rows, fold=rows % 5, block=np.array([f"b{i % blocks}" for i in rows]),
        situation=np.full(2000, situation.value), measured=np.zeros(2000),
        physics=np.full(2000, 9.0), process=np.random.default_rng(1).normal(size=2000),
    )  # fmt: skip


def test_widths_hold_nine_in_ten() -> None:
    held = _held(Situation.BLOCK, 100)
    found = width(held, ROWS, Situation.BLOCK)
    assert found is not None
    assert found.log_width == pytest.approx(1.645, rel=0.1)
    inside = coverage(held, ROWS)
    assert inside is not None
    assert inside[0] == pytest.approx(0.9, abs=0.03)


def test_too_few_blocks_give_no_width() -> None:
    assert width(_held(Situation.BLOCK, 9), ROWS, Situation.BLOCK) is None
    assert width(_held(Situation.BLOCK, 100), BLOCKS, Situation.PAIR) is None


def test_the_process_is_left_out_where_the_other_parts_say_so() -> None:
    held = _held(Situation.PAIR, 100)
    assert process_helps(held, Situation.PAIR)
    assert (predicted(held) == held.process).all()
    worse = replace(held, physics=np.zeros(2000))
    assert not process_helps(worse, Situation.PAIR)
    assert (predicted(worse) == 0).all()
    # One part in which it helps is not a reason in that part.
    mixed = replace(held, physics=np.where(held.fold == 0, 9.0, 0.0))
    assert set(predicted(mixed)[held.fold == 0]) == {9.0}
