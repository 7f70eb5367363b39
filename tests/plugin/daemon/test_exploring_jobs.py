"""Jobs sent somewhere to learn: until the budget is spent, never against anybody's wish."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from berth_daemon import Harbour, forecast, wait_until
from made_forecasts import put
from stored import STORED_DECISION
from views import knowing_service, site_of

from berth.pilot.errors import DocumentError
from berth.plugin.daemon.record import record_of
from berth.plugin.doctor.findings import Status
from berth.plugin.doctor.store import check_exploring
from berth.plugin.outcomes.exploring import HOUR_S, STALE_S, Ledger
from berth.plugin.store import DecisionRecord, Store
from berth.policies.settings import Explore
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Interval, PredictionCurve

ASK = {"queue": "auto", "comment": "berth:stream"}
BUDGET = "[policy.explore]\ncore_hours = 2.0\nshare = 0.5\nworst = 4.0\n"
ONE_JOB = 8 * 315 / 3600
"""Core-hours: a quarter of the 32 cores of a node of four GPUs, for the upper predicted time."""


def uncertain(name: str = "stream") -> Forecast:
    """100 s on a core, and 105 s within a factor of three on a GPU."""
    made = forecast(name, 100.0, 105.0)
    points = made.curves["a100-80gb"].points
    wide = tuple(replace(p, runtime_s=Interval(35.0, 105.0, 315.0)) for p in points)
    return replace(made, curves={**made.curves, "a100-80gb": PredictionCurve(wide)})


def earlier(count: int, *, before_s: float = 60.0, **changes: Any) -> list[DecisionRecord]:
    """Decisions that the store holds from before."""
    one = replace(STORED_DECISION, time_s=time.time() - before_s, **changes)
    return [replace(one, id=f"{one.code}-{before_s:.0f}-{n}") for n in range(count)]


def exploring_site(**options: str) -> Any:
    return site_of(coverage=BUDGET, **options)


class Ready:
    """A service with a ledger that has read a store of 40 jobs of the program."""

    def __init__(self, store: Store, **options: str) -> None:
        site = exploring_site(**options)
        self.service, self.recorded = knowing_service(uncertain(), site=site)
        store.decisions.add(earlier(40))
        self.service.ledger = Ledger(site.policy.explore)
        self.service.ledger.read(store.decisions)

    def decide(self, **job: Any) -> dict[str, Any]:
        asked = {"user": "alice", "uid": 1000, "kind": "batch", **ASK, **job}
        line = json.dumps({"v": 1, "op": "decide", "scheduler": "slurm", "job": asked})
        reply: dict[str, Any] = json.loads(self.service.handle(line.encode()))
        assert self.service.stats.counts["internal-errors"] == 0
        return reply


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(f"sqlite:///{tmp_path}/store.db")


def test_jobs_are_sent_to_learn_until_the_budget_is_spent(site: Harbour) -> None:
    store = site.store()
    put(store, uncertain())
    store.decisions.add(earlier(40))
    site.write_site(coverage=BUDGET)
    daemon = site.start()
    wait_until(lambda: daemon.stats()["explored"]["known"])
    replies = [daemon.decide(**ASK) for _ in range(6)]
    assert [reply["code"] for reply in replies] == ["explored"] * 2 + ["placed"] * 4
    assert replies[0]["edits"]["queue"] == "gpu"
    assert "to learn" in replies[0]["message"]
    assert replies[2]["edits"]["queue"] == "cpu"
    assert daemon.stats()["explored"]["core_hours"] == pytest.approx(2 * ONE_JOB, abs=1e-3)
    assert daemon.stop() == 0

    found = store.decisions.get(replies[0]["decision"])
    assert found is not None
    first = json.loads(found.ranked)[0]
    assert (first["candidate"], found.chosen, first["gpus"]) == ("gpu", "gpu", 1)
    assert first["explored"]["instead_of"] == "cpu"
    assert first["explored"]["core_hours"] == pytest.approx(ONE_JOB)
    assert first["explored"]["value"] > first["explored"]["loss"] > 0

    again = site.start()  # what was spent before is in the store
    wait_until(lambda: again.stats()["explored"]["known"])
    assert again.stats()["explored"]["jobs"] == 2
    assert again.decide(**ASK)["code"] == "placed"


@pytest.mark.parametrize(
    "job",
    [
        {"comment": "berth:stream berth-explore:off"},
        {"comment": "berth-explore:off,berth:stream"},
        {"comment": "berth:stream berth-deadline:6h"},
        {"kind": "interactive"},
        {"mode": "advise"},
        {"pinned": ["shape"]},
        {"user": "eve"},
        {"array": "0-99"},
        {"time_limit_min": 4},
    ],
)
def test_nobody_is_sent_who_must_not_be(store: Store, job: dict[str, Any]) -> None:
    ready = Ready(store)
    ledger = ready.service.ledger
    assert ledger is not None
    ledger.explore = replace(ledger.explore, excluded_users=("eve",))
    assert ready.decide(**job)["code"] in ("placed", "pinned-shape")
    assert ready.decide()["code"] == "explored"


@pytest.mark.parametrize("mode", ["shadow", "advise"])
def test_only_where_jobs_are_moved(store: Store, mode: str) -> None:
    ready = Ready(store, mode=mode)
    assert ready.decide()["code"] == "placed"


def test_no_budget_or_a_ledger_that_is_unread_or_old_sends_nobody(store: Store) -> None:
    ready = Ready(store)
    now_s = time.monotonic()
    ready.service.ledger = Ledger(exploring_site().policy.explore, monotonic=lambda: now_s)
    assert ready.decide()["code"] == "placed"
    ready.service.ledger.read(store.decisions)
    now_s += STALE_S + 1
    assert ready.decide(user="bob")["code"] == "placed"
    ready.service.ledger = None
    assert ready.decide(user="carol")["code"] == "placed"


def test_the_same_request_is_sent_again_only_while_the_budget_lasts(store: Store) -> None:
    ready = Ready(store)
    codes = [ready.decide()["code"] for _ in range(4)]
    assert codes == ["explored", "explored", "placed", "placed"]
    assert len({one.decision.inputs_digest for one in ready.recorded if one.decision}) == 3


def test_several_hosts_see_what_each_has_spent(store: Store) -> None:
    here, there = Ready(store), Ready(store)
    here.decide()
    here.decide()
    store.decisions.add([record_of(one, "here") for one in here.recorded])
    for one in (here, there):
        assert one.service.ledger is not None
        one.service.ledger.read(store.decisions)
        assert one.service.ledger.summary()["jobs"] == 2
        assert one.decide(user="bob")["code"] == "placed"


def test_what_is_older_than_the_period_counts_no_more(store: Store) -> None:
    spent = json.dumps([{"explored": {"core_hours": 1.5}}])
    store.decisions.add(earlier(1, before_s=90_000.0, code="explored", ranked=spent))
    store.decisions.add(earlier(1, before_s=2 * HOUR_S, code="explored", ranked=spent))
    for days, core_hours in ((1.0, 1.5), (2.0, 3.0)):
        ledger = Ledger(Explore(core_hours=10.0, period_s=days * 86_400.0))
        ledger.read(store.decisions)
        assert ledger.summary()["core_hours"] == core_hours


@pytest.mark.parametrize("ranked", ["", "[]", "{}", '[{"explored": {"core_hours": -1}}]', "[1]"])
def test_a_damaged_record_stops_spending(store: Store, ranked: str) -> None:
    store.decisions.add(earlier(1, code="explored", ranked=ranked))
    ready = Ready(store)
    assert ready.decide()["code"] == "placed"


@pytest.mark.parametrize(
    "line",
    ["core_hours = -1", "share = 0", "share = 0.9", "worst = 0.5", "days = 0", "core_hour = 1"],
)
def test_a_bad_budget_is_refused_by_its_key(line: str) -> None:
    with pytest.raises(DocumentError) as caught:
        site_of(coverage=f"[policy.explore]\n{line}\n")
    assert "policy.explore" in str(caught.value)


def test_doctor_says_what_is_spent_and_what_is_in_the_way(store: Store, tmp_path: Path) -> None:
    site = exploring_site(mode="shadow", folder=str(tmp_path))
    url = f"sqlite:///{tmp_path}/store.db"
    site = replace(site, daemon=replace(site.daemon, store=url))
    found = list(check_exploring(site))
    assert [one.status for one in found] == [Status.WARN, Status.OK]
    assert "mode shadow moves no job" in found[0].text
    assert "with 0 of 2 core-hours" in found[1].text
    assert (
        list(check_exploring(replace(site, policy=replace(site.policy, explore=Explore())))) == []
    )
