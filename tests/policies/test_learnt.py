"""Learnt times in decisions: the sentence says so, and failing intervals are not relied on."""

from __future__ import annotations

from dataclasses import replace

from policy_builders import NOW_S, cpu, curve, forecast, gpu, request, states

from berth.policies import Code, Decision, PolicySettings
from berth.policies.decide import decide
from berth.predictor.core.forecast import Forecast, SourceShare

PLACES = (cpu(), gpu())
BASE = forecast(curve("cpu", 800.0), curve("gpu", 20.0, gpus=True))
DOUBT = "predicted times on gpu held for only 3 of the last 20 jobs"


def run(predicted: Forecast, *, strict: bool = True) -> Decision:
    settings = PolicySettings(strict=strict)
    return decide(request(), PLACES, states(*PLACES), predicted, settings, now_s=NOW_S)


def test_the_sentence_says_from_which_jobs_a_time_was_learnt() -> None:
    shares = (SourceShare("finished jobs: 3 here, 2 elsewhere", 1.0, 0.1, "roofline"),)
    learnt = replace(BASE, sources={PLACES[1].platform: shares})
    assert ", learnt from finished jobs (3 here, 2 elsewhere)" in run(learnt).reason
    assert "learnt" not in run(BASE).reason


def test_a_platform_whose_intervals_fail_is_not_enforced() -> None:
    doubted = replace(BASE, doubted={PLACES[1].platform: DOUBT})
    found = run(doubted)
    assert found.chosen == "cpu"
    (row,) = (r for r in found.ranked if r.candidate == "gpu")
    assert (row.code, row.excluded) == (Code.INTERVALS_FAIL, DOUBT)
    assert found.inputs_digest != run(BASE).inputs_digest
    assert run(doubted, strict=False).chosen == "gpu"


def test_doubts_are_stored_with_the_forecast() -> None:
    doubted = replace(BASE, doubted={PLACES[1].platform: DOUBT})
    assert Forecast.from_json(doubted.to_json()).doubted == doubted.doubted
    assert Forecast.from_json(BASE.to_json()).doubted == {}
