"""Figures are of rows that nobody was fitted on; a second run goes on; errors have their sign."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from berth.pilot.errors import DocumentError, UsageError
from berth.predictor.families.language_model.physics import OFFLINE
from lab.__main__ import main
from lab.ground.resume import Resume
from lab.llm import language_models as run
from lab.llm import llm_bundle
from lab.llm.cases import Cases
from lab.llm.held_out import ACCELERATORS, as_served, fit, folds, leave_out

Campaign = Callable[..., Cases]


def test_a_second_run_resumes_and_another_seed_starts_anew(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, resume = campaign(), Resume(tmp_path)

    def rules_of(seed: int) -> np.ndarray:
        parts = folds(table, ACCELERATORS, seed)
        return leave_out(table, parts, seed, resume=resume, key=f"k/{seed}").by_rule

    first = rules_of(0)
    calls: list[int] = []

    def again(learnt: Cases, asked: Cases, seed: int) -> np.ndarray:
        calls.append(seed)
        return as_served(learnt, asked, seed)

    monkeypatch.setattr("lab.llm.held_out.as_served", again)
    assert (rules_of(0) == first).all()
    assert not calls
    rules_of(1)
    assert calls == [1, 1, 1]


def test_the_memory_rule_is_held_against_what_ran(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "table", campaign)
    assert run.refused_but_ran(OFFLINE) == (0, len(campaign()))


@pytest.mark.parametrize("text", ["{}", '{"shipped": {}, "choices": {"offline": {"x": {}}}}'])
def test_training_with_another_evaluation_is_refused(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "evaluation.json"
    path.write_text(text)
    with pytest.raises(SystemExit) as stopped:
        main(["language-models", "--train", str(tmp_path / "b"), "--figures", str(path)])
    assert stopped.value.code == 2
    assert "evaluation" in capsys.readouterr().err


def test_choices_are_read_from_an_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "evaluation.json"
    path.write_text(json.dumps({"choices": {OFFLINE: []}}))
    assert run.read_evaluation(path) == {OFFLINE: []}
    path.write_text(json.dumps({"choices": {OFFLINE: [{"rule": "guess"}]}}))
    with pytest.raises(DocumentError, match="not an evaluation"):
        run.read_evaluation(path)


def test_a_bundle_without_choices_is_not_written(campaign: Campaign) -> None:
    with pytest.raises(UsageError, match="no choices"):
        llm_bundle._entry(campaign(), fit(campaign(), 0), ())
