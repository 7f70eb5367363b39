"""Effects and the process find what was put in, say what their ONNX says, and peek at nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest

from berth.pilot.errors import BerthError
from berth.predictor.families.language_model.bundle import Likeness
from berth.predictor.families.language_model.physics import HEADS, OFFLINE, TERMS
from berth.predictor.families.language_model.residual import Residual
from lab.llm.effects import fit_effects, physics
from lab.llm.held_out import (
    ACCELERATORS,
    BLOCKS,
    PAIRS,
    ROWS,
    SPLITS,
    Fit,
    Held,
    coverage,
    decided,
    fit,
    helps,
    left_out,
    parts,
    width,
)
from lab.llm.process import TERMS as KERNELS
from lab.llm.process import fit_process
from lab.llm.table import Table
from lab.llm.to_onnx import check_agreement, to_onnx

Campaign = Callable[..., Table]


@pytest.fixture(scope="module")
def learnt(campaign: Campaign) -> tuple[Table, Fit]:
    table = campaign()
    return table, fit(table, 0)


@pytest.mark.parametrize("head", HEADS)
def test_effects_bring_physics_near_what_was_measured(campaign: Campaign, head: str) -> None:
    table = campaign(head)
    effects = fit_effects(table)
    assert effects.terms == TERMS[head]
    off = np.abs(physics(table, effects) - table.log_seconds)
    assert np.median(off) < 0.15


def test_the_process_finds_what_physics_misses(learnt: tuple[Table, Fit]) -> None:
    table, found = learnt
    alone, said = found.log_seconds(table)
    missed = np.abs(alone - table.log_seconds).mean()
    assert np.abs(said - table.log_seconds).mean() < min(0.03, 0.5 * missed)


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


def test_onnx_says_what_the_process_says(learnt: tuple[Table, Fit]) -> None:
    table, found = learnt
    raw = to_onnx(found.process)
    assert check_agreement(raw, found.process, table.ties, table.numbers) < 1e-6
    served = Residual(onnxruntime.InferenceSession(raw, providers=["CPUExecutionProvider"]))
    ours = served(table.ties[:5], table.numbers[:5])
    assert ours == pytest.approx(found.process(table.ties[:5], table.numbers[:5]), abs=1e-6)
    assert served(table.ties[:0], table.numbers[:0]).size == 0


def test_another_onnx_is_never_written(learnt: tuple[Table, Fit]) -> None:
    table, found = learnt
    other = replace(found.process, mean=found.process.mean + 1)
    with pytest.raises(BerthError, match="differs"):
        check_agreement(to_onnx(found.process), other, table.ties, table.numbers)


def test_what_is_left_out_teaches_nothing(campaign: Campaign) -> None:
    table = campaign()
    part = parts(table, BLOCKS, 0)[0]
    before = left_out(table, part, 0, 0)
    changed = table.log_seconds.copy()
    changed[part] += 5.0
    after = left_out(replace(table, log_seconds=changed), part, 0, 0)
    assert [h.said for h in after] == pytest.approx([h.said for h in before])


@pytest.mark.parametrize("split", SPLITS)
def test_every_row_is_left_out_once_and_its_group_with_it(campaign: Campaign, split: str) -> None:
    table = campaign()
    found = parts(table, split, 0)
    assert sorted(i for part in found for i in part) == list(range(len(table)))
    pairs = [f"{a} | {f}" for a, f in zip(table.accelerators, table.frameworks, strict=True)]
    groups = {BLOCKS: table.blocks, PAIRS: pairs, ACCELERATORS: table.accelerators}.get(split)
    for part in found if groups else ():
        assert groups is not None
        assert not {groups[i] for i in part} & {
            groups[i] for i in range(len(table)) if i not in set(part)
        }


def test_an_unseen_accelerator_is_predicted_by_physics_alone(campaign: Campaign) -> None:
    table = campaign()
    part = [i for i, a in enumerate(table.accelerators) if a == "mi300x-192gb"]
    held = left_out(table, part, 0, 0)
    assert {h.likeness for h in held} == {Likeness.NEW}
    assert all(h.said == h.physics for h in held)


def _held(likeness: Likeness, blocks: int) -> list[Held]:
    random = np.random.default_rng(1)
    return [
        Held(i, i % 5, f"b{i % blocks}", likeness, 0.0, 9.0, float(random.normal()))
        for i in range(2000)
    ]


def test_widths_hold_nine_in_ten() -> None:
    held = _held(Likeness.BLOCK, 100)
    found = width(held, ROWS)
    assert found is not None
    assert found.log_width == pytest.approx(1.645, rel=0.1)
    inside = coverage(held, ROWS)
    assert inside is not None
    assert inside[0] == pytest.approx(0.9, abs=0.03)


def test_too_few_blocks_give_no_width() -> None:
    assert width(_held(Likeness.BLOCK, 9), ROWS) is None
    assert width(_held(Likeness.BLOCK, 100), BLOCKS) is None


def test_the_process_is_left_out_where_the_other_parts_say_so() -> None:
    held = _held(Likeness.PAIR, 100)
    assert helps(held, BLOCKS)
    assert decided(held, BLOCKS) == held
    worse = [replace(h, physics=0.0) for h in held]
    assert not helps(worse, BLOCKS)
    assert all(h.said == 0 for h in decided(worse, BLOCKS))
    # One part in which it helps is not a reason in that part.
    mixed = [replace(h, physics=9.0 if h.fold == 0 else 0.0) for h in held]
    assert {h.said for h in decided(mixed, BLOCKS) if h.fold == 0} == {9.0}
