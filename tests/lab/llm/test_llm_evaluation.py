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
from lab.ground.resume import Resume
from lab.llm import language_models as run
from lab.llm import llm_baselines
from lab.llm.cases import Cases
from lab.llm.situations import ACCELERATORS, BLOCKS, as_served, folds

Campaign = Callable[..., Cases]
BASELINES = [one.name for one in llm_baselines.baselines(0)]


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_learns_nothing_from_what_is_left_out(
    campaign: Campaign, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (llm_baselines.THESIS, llm_baselines.PLAIN, llm_baselines.RESIDUAL):
        monkeypatch.setitem(arguments, "n_estimators", 30)
    table = campaign()
    part = folds(table, BLOCKS, 0)[0]
    baseline = next(one for one in llm_baselines.baselines(0) if one.name == name)
    changed = table.log_seconds.copy()
    changed[part.test] += 5.0
    after = replace(table, log_seconds=changed)
    one, other = (baseline.predict(rows[part.train], rows[part.test], 0) for rows in (table, after))
    assert one == pytest.approx(other)
    assert np.isfinite(one).all()


def test_a_second_run_resumes_and_another_seed_starts_anew(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "table", campaign)
    monkeypatch.setattr(run, "_WITH_BASELINES", set())
    resume = Resume(tmp_path)
    first = run.split_results(OFFLINE, ACCELERATORS, 0, resume)
    calls: list[int] = []

    def again(learnt: Cases, asked: Cases, seed: int) -> np.ndarray:
        calls.append(seed)
        return as_served(learnt, asked, seed)

    monkeypatch.setattr("lab.llm.situations.as_served", again)
    assert run.split_results(OFFLINE, ACCELERATORS, 0, resume).results == first.results
    assert not calls
    run.split_results(OFFLINE, ACCELERATORS, 1, resume)
    assert calls == [1, 1, 1]


def test_a_rate_twice_too_high_is_an_error_of_one() -> None:
    half = np.full(4, -np.log(2.0))
    assert run.errors(OFFLINE, np.zeros(4), half).median_error == pytest.approx(1.0)
    assert run.errors(TPOT, np.zeros(4), half).median_error == pytest.approx(0.5)


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
    width = {"log_width": 0.1, "rows": 20, "groups": 10, "split": "rows", "process": True}
    path = tmp_path / "evaluation.json"
    path.write_text(json.dumps({"widths": {OFFLINE: {"block": width}}}))
    assert run.read_widths(path)[OFFLINE]["block"].log_width == 0.1  # type: ignore[index]
    path.write_text(json.dumps({"widths": {OFFLINE: {"block": {**width, "log_width": -1}}}}))
    with pytest.raises(DocumentError, match="not an evaluation"):
        run.read_widths(path)
