"""Places with the same numbers are worked out once: what is decided is as if each were alone."""

from __future__ import annotations

import pytest
from drawn_cases import crowded, shown
from policy_builders import NOW_S

from berth.policies import Decider, ranking

CASES = 80


@pytest.mark.parametrize("seed", range(CASES))
def test_as_if_each_place_were_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, requests = crowded(seed)
    decider = Decider(drawn.candidates, drawn.settings)
    found = []
    for states in (drawn.states, drawn.later):
        for request in requests:
            one = decider.decide(request, states, drawn.forecast, NOW_S + 1.0)
            found.append((shown(one), one.ranked, one.edit))
    monkeypatch.setattr(ranking, "_kind", lambda *_: object())
    for states in (drawn.states, drawn.later):
        for request in requests:
            alone = Decider(drawn.candidates, drawn.settings)
            one = alone.decide(request, states, drawn.forecast, NOW_S + 1.0)
            assert found.pop(0) == (shown(one), one.ranked, one.edit)


def test_the_cases_have_places_alike_and_something_to_decide() -> None:
    drawn = [crowded(seed)[0] for seed in range(CASES)]
    assert sum(len(one.candidates) for one in drawn) > 7 * CASES
    chosen = [
        Decider(one.candidates, one.settings).decide(one.request, one.states, one.forecast, NOW_S)
        for one in drawn
    ]
    assert sum(one.code == "placed" for one in chosen) > CASES / 3
