"""Evaluation: its figures are what they say."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from toy_profiles import QUICK, examples

from berth.predictor.hardware import platforms
from lab.kernels.evaluate_programs import SHIPPED, TASKS, evaluate_methods, report_of
from lab.relative.figures import kendall, r2

ALL = platforms.shipped()


def test_tau_counts_pairs_of_different_kernels_only() -> None:
    measured = np.array([1.0, 2.0, 3.0])
    assert kendall(measured, np.array([1.0, 2.0, 3.0]), ["a", "a", "b"]) == 1.0
    assert kendall(measured, np.array([2.0, 1.0, 3.0]), ["a", "a", "b"]) == 1.0
    assert math.isnan(kendall(measured, measured, ["a", "a", "a"]))


def test_r2_of_a_constant_is_nothing() -> None:
    assert math.isnan(r2(np.ones(3), np.ones(3)))


def test_the_whole_evaluation_runs_and_reports(tmp_path: Path) -> None:
    ticks: list[int] = []
    made = examples(kernels=14)
    found, again = (
        evaluate_methods(made, ALL, seed=0, rounds=QUICK, advance=lambda: ticks.append(1))
        for _ in range(2)
    )
    assert found == again
    assert len(ticks) == 2 * TASKS * 14
    tasks = list(dict.fromkeys(result.split for result in found))
    assert len(tasks) == TASKS
    both = next(r for r in found if r.family == SHIPPED)
    assert both.figures.r2_log > 0.9
    assert both.figures.coverage is not None
    assert both.figures.coverage >= 0.8
    report = report_of(found, len(made), 14, 0)
    for section in report.sections:
        assert {len(row) for row in section.rows} == {len(section.header)}
    report.write(tmp_path / "out")
    text = (tmp_path / "out" / "evaluation.md").read_text()
    assert "leave-one-kernel-out" in text
    assert "g++ 10.3.1" in text
    data = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert data["shipped"] == report.shipped
    assert f"{tasks[0]}: median_error" in report.shipped
