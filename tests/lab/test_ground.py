"""The lab's ground: tables, splits, held-out figures, few-shot points, reports."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from berth.pilot.errors import UsageError
from lab.ground.evaluate import Family, evaluate, held_out
from lab.ground.figures import combined, curve, figures, over, widths_from_other_folds
from lab.ground.report import Report, Section, results_section
from lab.ground.resume import Resume
from lab.ground.splits import Fold, Split, few
from lab.ground.table import Floats, Strings, Table, whole


@dataclass(frozen=True)
class Runs(Table):
    model: Strings
    device: tuple[str, ...]
    log_s: Floats
    unit: str = whole(default="s")


def runs() -> Runs:
    models = np.array([f"m{n // 4}" for n in range(40)])
    return Runs(models, ("a", "b") * 20, np.arange(40.0), "ms")


def mean(train: Runs, asked: Runs, _seed: int) -> Floats:
    return np.full(len(asked), train.log_s.mean())


def test_a_table_is_picked_from_by_mask_and_by_place() -> None:
    table = runs()
    few_rows = table[np.array([3, 1])]
    assert few_rows.log_s.tolist() == [3.0, 1.0]
    assert few_rows.device == ("b", "b")
    assert few_rows.unit == "ms"
    assert len(table[table.log_s < 5]) == 5
    assert table.groups("model", "device")[:2].tolist() == ["m0/a", "m0/b"]


@pytest.mark.parametrize("count", [5, None])
def test_each_row_is_tested_once_and_no_group_is_on_both_sides(count: int | None) -> None:
    table = runs()
    folds = Split("unseen model", "model", count).folds(table, 7)
    assert len(folds) == (count or 10)
    assert sorted(np.concatenate([one.test for one in folds]).tolist()) == list(range(40))
    for one in folds:
        assert not set(table.model[one.train]) & set(table.model[one.test])


def test_too_few_groups_for_the_folds_are_an_error() -> None:
    with pytest.raises(UsageError, match="10 groups are fewer than the 11 folds"):
        Split("unseen model", "model", 11).folds(runs())


def test_few_rows_are_of_different_groups_and_their_groups_are_not_tested() -> None:
    table = runs()
    fold = few(table.model, np.arange(40), 3, seed=1)
    assert len(fold.train) == len(set(table.model[fold.train])) == 3
    assert not set(table.model[fold.train]) & set(table.model[fold.test])
    assert len(fold.test) == 40 - 3 * 4
    assert len(few(table.model, np.arange(40), 0, seed=1).test) == 40


def test_figures_of_right_and_of_wrong_predictions() -> None:
    measured, groups = np.log([1.0, 2.0, 4.0, 8.0]), np.array(["a", "b", "c", "d"])
    right = figures(measured, measured, groups, log_width=np.full(4, 0.1))
    assert (right.mean_error, right.within_10, right.kendall_tau, right.r2_log) == (0, 1, 1, 1)
    assert right.coverage == 1.0
    assert right.interval_factor == pytest.approx(math.exp(0.1))
    twice = figures(measured, measured + math.log(2), groups)
    assert twice.median_error == pytest.approx(1.0)
    assert twice.bias == pytest.approx(2.0)
    assert twice.kendall_tau == 1.0
    assert twice.coverage is None


def test_coverage_counts_groups_and_not_rows() -> None:
    measured, predicted = np.zeros(4), np.array([0.0, 0.0, 0.0, 1.0])
    found = figures(measured, predicted, np.array(["a", "a", "a", "b"]), log_width=np.full(4, 0.5))
    assert found.coverage == 0.5


def test_draws_are_combined_figure_by_figure() -> None:
    groups, measured = np.array(["a", "b"]), np.zeros(2)
    drawn = [figures(measured, measured + math.log(x), groups) for x in (2.0, 4.0)]
    assert combined(drawn).mean_error == pytest.approx(2.0)
    assert combined(drawn, np.nanmin).mean_error == pytest.approx(1.0)
    assert combined(drawn).coverage is None
    points = curve((0, 4), 2, lambda k, draw: drawn[draw if k else 0])
    assert [one.samples for one in points] == [0, 4]
    assert points[1].high.mean_error == pytest.approx(3.0)
    assert over([points[0], points[1]]).mean.mean_error == pytest.approx(1.5)


def test_a_width_is_of_the_other_folds_alone() -> None:
    fold = np.repeat([0, 1], 12)
    groups = np.array([f"g{n}" for n in range(24)])
    found = widths_from_other_folds(np.repeat([1.0, 5.0], 12), groups, fold)
    assert found.tolist() == [5.0] * 12 + [1.0] * 12


def test_families_are_evaluated_on_the_same_folds() -> None:
    table, split = runs(), Split("unseen model", "model")
    found = evaluate(
        [Family("mean", mean), Family("truth", lambda _, asked, __: asked.log_s)],
        table, split, log_measured=table.log_s, groups=table.model,
    )  # fmt: skip
    assert [one.family for one in found] == ["mean", "truth"]
    assert found[1].figures.mean_error == 0
    assert found[0].figures.rows == 40
    assert found[0].figures.mean_error > 0


def test_an_interrupted_evaluation_goes_on_at_its_fold(tmp_path: Path) -> None:
    table, folds = runs(), Split("unseen model", "model").folds(runs())
    asked: list[int] = []

    def counted(train: Runs, test: Runs, seed: int) -> Floats:
        if len(asked) == 3:
            raise KeyboardInterrupt
        asked.append(seed)
        return mean(train, test, seed)

    family, resume = Family("mean", counted), Resume(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        held_out(family, table, folds, resume=resume, key="k")
    asked.clear()
    held = held_out(family, table, folds, resume=resume, key="k")
    assert asked == [0, 0]
    assert len(held.log_predicted) == 40
    assert held.fold.tolist() == sorted(held.fold.tolist())


def test_a_row_can_be_in_several_folds() -> None:
    table = runs()
    folds = [Fold(np.arange(5, 40), np.arange(5)), Fold(np.arange(10, 40), np.arange(10))]
    assert len(held_out(Family("mean", mean), table, folds).rows) == 15


def test_a_report_is_text_a_page_and_json(tmp_path: Path) -> None:
    table = runs()
    results = evaluate(
        [Family("mean", mean)], table, Split("unseen model", "model"),
        log_measured=table.log_s, groups=table.model,
    )  # fmt: skip
    report = Report(
        "Toy", ("Errors are relative.",),
        (results_section("unseen model", results), Section("other", ("a",), [("1",)])),
        {"results": results}, {"mean": 1.0}, ("End.",),
    )  # fmt: skip
    assert "in 10 %" in report.text()
    assert "| mean | 40 |" in report.markdown()
    report.write(tmp_path)
    written = json.loads((tmp_path / "evaluation.json").read_text())
    assert written["results"][0]["figures"]["rows"] == 40
    assert written["shipped"] == {"mean": 1.0}
    assert (tmp_path / "evaluation.md").read_text().startswith("# Toy\n")
