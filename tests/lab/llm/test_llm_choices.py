"""The rule that answers is decided by held-out folds of its kind; a tie goes to the plainer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from berth.predictor.families.language_model.candidates import (
    RULES,
    Novelty,
    RuleErrors,
    ServingRule,
    decide,
)
from lab.llm import held_out
from lab.llm.cases import Cases
from lab.llm.held_out import FOLDS_OF, Held, held_rows, section


def errors(*pairs: tuple[float, float]) -> dict[ServingRule, RuleErrors]:
    return {
        rule: RuleErrors(median_error=error, kendall_tau=tau, log_width=1)
        for rule, (error, tau) in zip(RULES, pairs, strict=True)
    }


@pytest.mark.parametrize(
    ("pairs", "answers"),
    [
        (((0.3, 0.5), (0.2, 0.5), (0.2, 0.5), (0.2, 0.5)), ServingRule.NEAREST),
        (((0.1, 0.5), (0.2, 0.9), (0.1, 0.9), (0.2, 0.9)), ServingRule.ROOFLINE),
        (((0.3, 0.5), (0.2, 0.5), (0.1, 0.6), (0.099, 0.7)), ServingRule.EFFICIENCY),
        (((0.3, 0.5), (0.2, 0.5), (0.1, 0.6), (0.05, 0.7)), ServingRule.LEARNT),
        (((0.3, 0.5), (0.2, 0.5), (0.1, 0.6), (0.05, 0.4)), ServingRule.EFFICIENCY),
        (((0.3, 0.5), (0.2, 0.8), (0.1, 0.6), (0.05, 0.8)), ServingRule.LEARNT),
    ],
)
def test_a_richer_rule_answers_only_where_it_beats_the_plainer(
    pairs: tuple[tuple[float, float], ...], answers: ServingRule
) -> None:
    assert decide(errors(*pairs)) is answers


def test_a_fold_is_decided_by_the_others() -> None:
    """In each fold another rule is right; judged by the other fold, each takes the wrong one."""
    measured, wrong = np.arange(20.0), np.arange(20.0) + 1
    first = np.repeat([True, False], 10)
    by_rule = np.column_stack([
        np.where(first, measured, wrong), np.where(first, wrong, measured), wrong + 1, wrong + 1,
    ])  # fmt: skip
    blocks = np.arange(20).astype(str)
    rows = Held(np.full(20, "new device"), measured, by_rule, np.repeat([0, 1], 10), blocks)
    answers, widths = rows.nested()
    assert (answers == wrong).all()
    assert (widths == 0).all()


@pytest.mark.slow
def test_each_novelty_is_measured_where_the_rows_have_it(
    campaign: Callable[..., Cases], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_out, "table", campaign)
    steps: list[int] = []
    found = held_rows("offline", 0, advance=lambda: steps.append(1))
    assert len(steps) == len(set(FOLDS_OF.values()))
    made = {Novelty.MAKER, Novelty.DEVICE, Novelty.MODEL, Novelty.EXPERTS, Novelty.LOAD}
    # No version is published, and llama.cpp is no server that another stands for.
    assert set(found) == {*made, Novelty.KIND, Novelty.COMBINATION, Novelty.NOTHING}
    table = section("made up", found)
    assert all(len(row) == len(table.header) for row in table.rows)


def test_intervals_hold_nine_in_ten() -> None:
    rows = np.arange(2000)
    off = np.random.default_rng(1).normal(size=(2000, 1))
    blocks = np.array([f"b{row % 100}" for row in rows])
    held = Held(np.full(2000, "new load"), np.zeros(2000), np.tile(off, 4), rows % 5, blocks)
    assert held_out.coverage(held) == pytest.approx(0.9, abs=0.03)
    assert held.nested()[1] == pytest.approx(1.645, rel=0.1)
