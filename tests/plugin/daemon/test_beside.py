"""What runs beside the daemon: learning, expected waits and their age, unreadable answers."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from views import site_of

from berth.pilot.errors import BerthError
from berth.plugin.daemon import following
from berth.plugin.daemon.following import ExpectedWaits, follow_waits, with_waits
from berth.plugin.scheduler import StatesReading
from berth.policies.values import Candidate, CandidateState
from berth.policies.waits import WaitTable
from berth.predictor.core.prediction import Interval

TABLE = WaitTable((1,), (math.inf,), ((Interval(5, 5, 5),),))
SITE: Any = SimpleNamespace(
    source="berth.toml",
    candidates=(Candidate("a", "quartz", "batch", cores_per_node=4, nodes=2),),
)


def state(idle: int, pending: int = 0) -> dict[str, CandidateState]:
    return {"a": CandidateState(True, idle, 0, pending, 0.0)}


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_old_tables_are_not_used() -> None:
    clock = Clock()
    expected = ExpectedWaits(10.0, clock)
    read = with_waits(lambda: StatesReading(state(0)), expected)
    assert read().states["a"].waits is None
    assert expected.age_s is None
    expected.renew(lambda: {"a": TABLE})
    assert read().states["a"].waits is TABLE
    clock.now_s += 30.0
    assert read().states["a"].waits is TABLE
    assert expected.age_s == 30.0
    clock.now_s += 0.1
    assert read().states["a"].waits is None

    def slowly() -> dict[str, WaitTable]:
        clock.now_s += 20.0
        return {"a": TABLE}

    expected.renew(slowly)
    clock.now_s += 40.0
    assert read().states["a"].waits is TABLE, "a look-ahead that takes long may be older"


def test_nobody_is_asked_while_everything_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(_site: object, command: str, *, longest_s: float) -> dict[str, object]:
        asked.append(command)
        return {"tables": {"a": TABLE.to_dict()}}

    monkeypatch.setattr(following, "ask_beside", answer)
    expected = ExpectedWaits(10.0)
    present: list[dict[str, CandidateState]] = []
    step = follow_waits(SITE, lambda: present[-1], expected)
    for states, tables in ((state(8), {}), (state(7), {"a": TABLE}), (state(8, 1), {"a": TABLE}),
                        ({"a": dataclasses.replace(state(0)["a"], up=False)}, {})):  # fmt: skip
        present.append(states)
        step()
        assert expected.fresh() == tables
    assert asked == ["jobs waits", "jobs waits"]


@pytest.mark.parametrize("answer", [{}, {"tables": 3}, {"tables": {"a": {"units": []}}}])
def test_an_unreadable_answer_keeps_the_last_tables(
    answer: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "ask_beside", lambda *_, **__: answer)
    expected = ExpectedWaits(10.0)
    expected.renew(lambda: {"a": TABLE})
    with pytest.raises(BerthError, match="unreadable"):
        follow_waits(SITE, lambda: state(0), expected)()
    assert expected.fresh() == {"a": TABLE}


@pytest.mark.parametrize(
    ("script", "said"),
    [("echo no >&2; exit 3", "failed: no"), ("echo 7", "else than JSON"), ("exit 0", "JSON"),
     ("sleep 5", "did not end")],
)  # fmt: skip
def test_a_command_that_fails_is_one_sentence(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setattr(following.sys, "executable", str(python))
    with pytest.raises(BerthError, match=said) as failed:
        following.ask_beside(
            SITE, "jobs waits", longest_s=0.5 if script.startswith("sleep") else 30.0
        )
    assert "\n" not in failed.value.message


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

    monkeypatch.setattr(following, "ask_beside", learn)
    store: Any = SimpleNamespace(learning=SimpleNamespace(has_work=has_work))
    step = following.follow_jobs(store, site_of(), clock=lambda: 1e9)
    step()
    with pytest.raises(BerthError, match="it failed"):
        step()
    step()
    step()
    assert asked_at == [1e9] * 4
    assert learnt == 1
