"""How long an answer and the state it rests on may be used, and what ends that."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from types import MappingProxyType

import pytest
from berth_daemon import forecast
from views import decide, knowing_service, site_of, snapshot_of

from berth.plugin.daemon.app import view
from berth.plugin.daemon.protocol import parse_stamp
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.daemon.view import Snapshot


def test_without_a_state_nothing_is_placed() -> None:
    service, _ = knowing_service()
    service.snapshot = Snapshot()
    assert decide(service)["code"] == "stale-state"


def test_a_state_that_grows_old_is_not_acted_on_even_from_memory() -> None:
    service, _ = knowing_service()
    fresh = service.snapshot
    assert decide(service)["action"] == "edit"
    service.snapshot = Snapshot(fresh.states, fresh.wall_s, fresh.monotonic_s - 10_000)
    assert decide(service)["code"] == "stale-state"


def test_an_answer_holds_until_its_state_is_older_than_the_site_allows() -> None:
    service, _ = knowing_service()
    fresh, patience_s = service.snapshot, service.site.decider.settings.stale_after_s
    for age_s, code in ((patience_s - 5, "placed"), (patience_s + 5, "stale-state")):
        service.snapshot = Snapshot(fresh.states, fresh.wall_s, fresh.monotonic_s - age_s)
        assert decide(service)["code"] == code
        # The same line and another one of the same job, both from memory now.
        assert decide(service)["code"] == decide(service, name="again")["code"] == code
        age = service.status()["state_age_s"]
        assert isinstance(age, float)
        assert age_s <= age < age_s + 5


def test_what_was_decided_from_a_fresh_state_is_not_said_when_it_grew_old() -> None:
    service, _ = knowing_service()
    fresh, patience_s = service.snapshot, service.site.decider.settings.stale_after_s
    old = {name: replace(s, as_of_s=fresh.wall_s - patience_s + 0.2)
           for name, s in fresh.states.items()}  # fmt: skip
    service.snapshot = Snapshot(MappingProxyType(old), fresh.wall_s, time.monotonic())
    assert decide(service)["code"] == "placed"
    time.sleep(0.3)
    assert decide(service)["code"] == decide(service, name="again")["code"] == "stale-state"


def test_a_wall_clock_set_back_or_forth_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    service, recorded = knowing_service()
    decide(service)
    real = time.time()
    for jump_s in (-1e6, 1e6, -real):
        monkeypatch.setattr(time, "time", lambda jump_s=jump_s: real + jump_s)
        monkeypatch.setattr(time, "time_ns", lambda jump_s=jump_s: int((real + jump_s) * 1e9))
        assert decide(service)["action"] == "edit"
    ids = [a.id for a in recorded]
    assert ids == sorted(set(ids))


def test_the_same_line_again_is_the_same_answer_under_a_name_of_its_own() -> None:
    service, recorded = knowing_service()
    journal: list[tuple[str, bytes]] = []
    service._keep = lambda _time_s, mode, _line, reply, _user: journal.append((mode, reply))
    answers = [decide(service) for _ in range(3)]
    names = [answer.pop("decision") for answer in answers]
    stamps = [parse_stamp(answer.pop("stamp")) for answer in answers]
    assert [stamp and stamp.pop("id") for stamp in stamps] == names == [a.id for a in recorded]
    assert len(set(names)) == 3
    assert answers[0] == answers[1] == answers[2]
    assert stamps[0] == stamps[1] == stamps[2]
    assert [json.loads(reply)["decision"] for _, reply in journal] == names
    assert list(service.stats.decisions.values()) == [3]
    assert all(a.decision == recorded[0].decision for a in recorded)
    assert all(a.changes == answers[0]["edits"] for a in recorded)


def test_a_new_state_a_new_site_and_a_new_forecast_are_seen_at_once() -> None:
    service, _ = knowing_service()
    assert decide(service)["edits"]["queue"] == "gpu"
    service.shelf = Shelf.of([forecast("stream", cpu_s=6.0)])
    assert decide(service)["edits"]["queue"] == "cpu"
    service.shelf = Shelf.of([forecast("stream")])
    service.snapshot = snapshot_of(site_of(), up=False)
    assert decide(service)["code"] == "down"
    service.snapshot = snapshot_of(site_of())
    service.site = view(site_of("shadow"))
    assert decide(service)["action"] == "keep"


def test_the_same_request_gives_the_same_decision() -> None:
    first, second = knowing_service(), knowing_service()
    for service, _ in (first, second):
        decide(service)
    one, two = first[1][0].decision, second[1][0].decision
    assert one is not None
    assert two is not None
    assert one.inputs_digest == two.inputs_digest
    assert one.ranked == two.ranked
