"""Evaluation is nested and its figures are what they say."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_profiles import QUICK, examples

from berth.predictor.hardware import platforms
from lab.kernels.evaluate_programs import evaluate_methods, leave_one_kernel_out, report_of, steps
from lab.kernels.examples import columns
from lab.kernels.methods import METHODS, SHIPPED
from lab.kernels.select import Guess
from lab.relative.figures import kendall, r2

ALL = platforms.shipped()
HERE = ALL["epyc-genoa-vm"]
FEW = tuple(replace(m, candidates=QUICK[:1]) for m in METHODS)


def test_tau_counts_pairs_of_different_kernels_only() -> None:
    measured = np.array([1.0, 2.0, 3.0])
    assert kendall(measured, np.array([1.0, 2.0, 3.0]), ["a", "a", "b"]) == 1.0
    assert kendall(measured, np.array([2.0, 1.0, 3.0]), ["a", "a", "b"]) == 1.0
    assert math.isnan(kendall(measured, measured, ["a", "a", "a"]))


def test_r2_of_a_constant_is_nothing() -> None:
    assert math.isnan(r2(np.ones(3), np.ones(3)))


def test_nothing_sees_the_kernel_that_is_reported() -> None:
    data = columns(examples(), ALL["quartz"], HERE)
    held: list[tuple[frozenset[str], frozenset[str]]] = []

    def spy(rows, candidates, seed):  # type: ignore[no-untyped-def]
        def predict(asked):  # type: ignore[no-untyped-def]
            held.append((frozenset(rows.kernels), frozenset(asked.kernels)))
            return Guess(asked.log_reference, np.ones(len(asked)))

        return [predict] * len(candidates)

    leave_one_kernel_out(data, spy, seed=0, candidates=QUICK[:1])
    assert all(not trained & asked for trained, asked in held)
    outer = [asked for trained, asked in held if len(trained) == 13 and len(asked) == 1]
    assert set().union(*outer) == set(data.kernels)
    # In no inner fold of an outer one does the outer's kernel appear, on either side.
    for name in set(data.kernels):
        mine = [i for i, (t, a) in enumerate(held) if a == {name} and len(t) == 13]
        assert len(mine) == 1
        inner = held[mine[0] - 6 : mine[0]]
        assert all(name not in t | a for t, a in inner)


def test_the_interval_covers_what_it_promises() -> None:
    data = columns(examples(kernels=30), ALL["quartz"], HERE)
    out = leave_one_kernel_out(data, METHODS[0].fitter, seed=0, candidates=QUICK[:1])
    found = out.figures(data)
    assert found.coverage >= 0.8


@pytest.mark.slow
def test_the_whole_evaluation_runs_and_reports(tmp_path: Path) -> None:
    ticks = []
    made = examples(kernels=12)
    found = evaluate_methods(
        made, ALL, seed=0, jobs=1, methods=FEW, advance=lambda: ticks.append(1)
    )
    assert len(ticks) == steps(made, FEW)
    tasks = list(dict.fromkeys(result.split for result in found.results))
    assert len(tasks) == 3
    assert len(found.results) == 3 * len(FEW)
    assert found.ranking is not None
    assert found.ranking.regret >= 1.0
    both = next(r for r in found.results if r.family == SHIPPED)
    assert both.figures.r2_log > 0.9
    report = report_of(found, len(made), 12, 0)
    for section in report.sections:
        assert {len(row) for row in section.rows} == {len(section.header)}
    report.write(tmp_path / "out")
    text = (tmp_path / "out" / "evaluation.md").read_text()
    assert "leave-one-kernel-out" in text
    assert "g++ 10.3.1" in text
    data = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert data["shipped"] == report.shipped
    assert f"{tasks[0]}: median_error" in report.shipped


def test_the_same_seed_gives_the_same_figures() -> None:
    data = columns(examples(), ALL["lassen-v100"], HERE)
    one, two = (
        leave_one_kernel_out(data, METHODS[0].fitter, seed=5, candidates=QUICK[:1])
        for _ in range(2)
    )
    assert (one.log_predicted == two.log_predicted).all()
