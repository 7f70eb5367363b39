"""Figures are of rows that nobody was fitted on; a second run goes on; errors have their sign."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model.physics import OFFLINE, TPOT
from lab.__main__ import main
from lab.llm import baselines as rivals
from lab.llm import run
from lab.llm.held_out import ACCELERATORS, BLOCKS, Held, left_out, parts
from lab.llm.table import Table

Campaign = Callable[..., Table]


@pytest.mark.parametrize("name", rivals.RIVALS)
def test_a_rival_learns_nothing_from_what_is_left_out(
    campaign: Campaign, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (rivals.THESIS, rivals.PLAIN, rivals.RESIDUAL):
        monkeypatch.setitem(arguments, "n_estimators", 30)
    table = campaign()
    part = parts(table, BLOCKS, 0)[0]
    changed = table.log_seconds.copy()
    changed[part] += 5.0
    before = rivals.RIVALS[name](table, part, 0)
    after = rivals.RIVALS[name](replace(table, log_seconds=changed), part, 0)
    assert before == pytest.approx(after)
    assert np.isfinite(before).all()


def test_a_second_run_goes_on_and_another_seed_starts_anew(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "table", campaign)
    first = run.split_figures(OFFLINE, ACCELERATORS, 0, tmp_path)
    asked: list[int] = []

    def again(table: Table, part: list[int], fold: int, seed: int) -> list[Held]:
        asked.append(fold)
        return left_out(table, part, fold, seed)

    monkeypatch.setattr(run, "left_out", again)
    assert run.split_figures(OFFLINE, ACCELERATORS, 0, tmp_path) == first
    assert not asked
    run.split_figures(OFFLINE, ACCELERATORS, 1, tmp_path)
    assert asked == [0, 1, 2]


def test_a_rate_twice_too_high_is_an_error_of_one(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = np.full(4, -np.log(2.0))
    rate = run._figures((OFFLINE, BLOCKS, "m"), np.zeros(4), half, None)
    assert rate.median_error == pytest.approx(1.0)
    seconds = run._figures((TPOT, BLOCKS, "m"), np.zeros(4), half, None)
    assert seconds.median_error == pytest.approx(0.5)


def test_the_memory_rule_is_held_against_what_ran(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "table", campaign)
    assert run.refused_but_ran(OFFLINE) == (0, len(campaign()))


@pytest.mark.parametrize("text", ["{}", '{"shipped": {}, "widths": {"offline": {"x": {}}}}'])
def test_training_with_another_evaluation_is_refused(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "evaluation.json"
    path.write_text(text)
    with pytest.raises(SystemExit) as stopped:
        main(["language-models", "--train", str(tmp_path / "b"), "--figures", str(path)])
    assert stopped.value.code == 2
    assert "evaluation" in capsys.readouterr().err


def test_a_missing_width_is_named(tmp_path: Path) -> None:
    from lab.experiments.language_models import _read_widths

    width = {"log_width": 0.1, "rows": 20, "groups": 10, "split": "rows", "process": True}
    path = tmp_path / "evaluation.json"
    path.write_text(json.dumps({"widths": {OFFLINE: {"block": width}}}))
    assert _read_widths(path)[OFFLINE]["block"].log_width == 0.1  # type: ignore[index]
    path.write_text(json.dumps({"widths": {OFFLINE: {"block": {**width, "log_width": -1}}}}))
    with pytest.raises(DocumentError, match="not an evaluation"):
        _read_widths(path)
