"""When the daemon runs a learner beside it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from views import site_of

from berth.pilot.errors import BerthError
from berth.plugin.daemon import learning

DONE = {"used": 1, "jobs": 1, "forecasts": [], "notices": []}


def test_it_learns_where_there_is_something_to_learn_and_again_after_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    has, fails = iter((False, True, True, False)), iter((True, False))
    asked_at: list[float] = []
    learnt = 0

    def has_work(now_s: float) -> bool:
        asked_at.append(now_s)
        return next(has)

    def learn(*_: object, **__: object) -> dict[str, Any]:
        nonlocal learnt
        if next(fails):
            raise BerthError("it failed")
        learnt += 1
        return DONE

    monkeypatch.setattr(learning, "ask_beside", learn)
    store: Any = SimpleNamespace(learning=SimpleNamespace(has_work=has_work))
    step = learning.follow_jobs(store, site_of(), clock=lambda: 1e9)
    step()
    with pytest.raises(BerthError, match="it failed"):
        step()
    step()
    step()
    assert asked_at == [1e9] * 4
    assert learnt == 1
