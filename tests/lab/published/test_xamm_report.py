"""The ablations' report: claims are compared seed by seed, and what was tried is all there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra `deep`")

from lab.experiments.xamm import report_of, verdict
from lab.published.xamm.ablation import Found, Score
from lab.published.xamm.anchors import ANCHORS
from lab.published.xamm.pictures import bars
from lab.published.xamm.plan import (
    ATTENTION,
    EXPERIMENTS,
    GPUS,
    NEW_TARGET,
    PLAIN,
    SCENARIOS,
    label,
    tried,
)


def found(scenario, mapes: dict) -> Found:
    scores = tuple(
        Score(way, mapes.get(way, (1.0, 1.0)), (0.5, 0.5), (0.3, 0.4)) for way in tried(scenario)
    )
    return Found(scenario, 10, scores)


@pytest.mark.parametrize(
    ("mapes", "words"),
    [
        ((0.5, 0.8), "-35% [-50%, -20%], better in all seeds"),
        ((1.5, 1.1), "+30% [+10%, +50%], worse in all seeds"),
        ((0.9, 1.1), "+0% [-10%, +10%], better in 1 of 2 seeds"),
    ],
)
def test_a_claim_is_judged_seed_by_seed(mapes: tuple[float, float], words: str) -> None:
    told = verdict(found(SCENARIOS[0], {ATTENTION: mapes}), PLAIN, ATTENTION)
    assert told is not None
    assert told[1] == words


def test_a_claim_about_names_is_not_made_where_names_cannot_be_told() -> None:
    named = next(way for way in tried(SCENARIOS[0]) if way.machines == "names")
    assert verdict(found(NEW_TARGET, {}), named, ATTENTION) is None


def test_every_experiment_is_in_the_report_with_a_picture(tmp_path: Path) -> None:
    all_found = [found(SCENARIOS[0], {}), found(NEW_TARGET, {})]
    names = bars(all_found, tmp_path)
    assert len(names) == len(EXPERIMENTS)
    assert all((tmp_path / name).stat().st_size > 10_000 for name in names)
    report_of(all_found, [0, 1], names, [("raw", "0.1", "0.2")]).write(tmp_path)
    text = (tmp_path / "evaluation.md").read_text(encoding="utf-8")
    for experiment in EXPERIMENTS:
        assert experiment.name in text
        assert all(label(way) in text for way in experiment.choices)
    assert NEW_TARGET.name in text
    rows = json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8"))["rows"]
    assert len(rows) == sum(len(f.scores) for f in all_found)


def test_ways_are_tried_once_and_told_apart() -> None:
    ways = tried(SCENARIOS[0])
    assert len({label(way) for way in ways}) == len(ways)


def test_a_target_never_trained_on_is_learnt_beside_all_other_cards() -> None:
    assert set(NEW_TARGET.targets) < set(NEW_TARGET.learnt) == set(GPUS)


def test_no_application_is_left_without_rows_by_its_anchors() -> None:
    assert len({application for application, _ in ANCHORS}) == len(ANCHORS)
