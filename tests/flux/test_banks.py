"""Queues that flux-accounting does not allow a user, by its recorded answers."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from berth_daemon import wait_until
from fake_flux import recorded_flux, state
from flux_bench import recorded

from berth.pilot.errors import SchedulerError
from berth.plugin.flux import cluster
from berth.plugin.flux.cluster import Banks, banks_of
from berth.plugin.flux.scheduler import Flux
from berth.plugin.usernames import UserNumbers
from berth.policies.limits import Denied, Limit, Scope


def answer(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = recorded("rpc_job-manager.jobtap-query")
    return {**found, **changes}


def limits(bank: str | None, queue: str, user: str = "uid:0") -> tuple[Limit, ...] | Denied:
    return Banks(answer()).limits(user, bank, None, queue)


def test_a_bank_opens_its_own_queues_only() -> None:
    assert limits("physics", "cpu") == ()
    assert limits("physics", "gpu") == Denied("bank physics of uid:0 may not use gpu")
    assert limits("chem", "cpu") == Denied("bank chem of uid:0 may not use cpu")


def test_a_user_whose_number_is_slow_to_find_goes_nowhere_until_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = threading.Event()

    def slow(user: str) -> int:
        found.wait(30)
        return 0

    monkeypatch.setattr(cluster, "_NUMBERS", UserNumbers(slow))
    assert limits("physics", "cpu", "ada") == Denied("the number of user ada is not known yet")
    found.set()
    wait_until(lambda: limits("physics", "cpu", "ada") == ())


def test_a_bank_limits_what_a_job_may_hold() -> None:
    assert limits("chem", "gpu") == (
        Limit(Scope.JOB, 1.0, "bank chem", "node"),
        Limit(Scope.JOB, 4.0, "bank chem", "cpu"),
    )


def test_limits_of_a_queue_hold_too() -> None:
    queues = answer()["queues"]
    queues["cpu"]["max_nodes_per_assoc"] = 2
    found = Banks(answer(queues=queues)).limits("uid:0", "physics", None, "cpu")
    assert found == (Limit(Scope.JOB, 2.0, "queue cpu", "node"),)


def test_without_a_bank_all_banks_of_the_user_must_allow_the_queue() -> None:
    """Which of them is the default one, the plugin does not say."""
    assert isinstance(limits(None, "cpu"), Denied)
    users = answer()["mf_priority_map"]
    users[0]["banks"] = [b for b in users[0]["banks"] if b["bank_name"] != "root"]
    of_two = Banks(answer(mf_priority_map=users))
    assert not isinstance(of_two.limits("uid:0", None, None, "auto"), Denied)
    assert isinstance(of_two.limits("uid:0", None, None, "gpu"), Denied)


def test_who_is_unknown_there_goes_nowhere() -> None:
    assert limits(None, "cpu", "uid:77") == Denied("flux-accounting has no bank of uid:77")
    assert limits("nope", "cpu") == Denied("flux-accounting has no bank nope of uid:0")
    assert isinstance(limits(None, "cpu", "no such user"), Denied)


def test_a_disabled_bank_is_none() -> None:
    users = answer()["mf_priority_map"]
    for bank in users[0]["banks"]:
        bank["active"] = 0
    found = Banks(answer(mf_priority_map=users)).limits("uid:0", "physics", None, "cpu")
    assert found == Denied("flux-accounting has no bank physics of uid:0")


def test_a_queue_that_flux_accounting_does_not_know_may_be_refused() -> None:
    assert limits("physics", "mig") == Denied("flux-accounting does not know the queue mig")
    assert Banks(answer(queues={})).limits("uid:0", "physics", None, "mig") == ()


def test_equal_rights_have_equal_digests() -> None:
    assert Banks(answer()).digest == Banks(answer()).digest
    assert Banks(answer()).digest != Banks(answer(queues={})).digest


@pytest.mark.parametrize(
    ("errno", "error"),
    [(1, "Operation not permitted"), (22, "[Errno 22] mf_priority.so: plugin not found")],
)
def test_without_the_plugin_or_the_right_to_ask_there_are_no_rights(errno: int, error: str) -> None:
    assert banks_of({"error": error, "errno": errno}) is None


@pytest.mark.parametrize(
    "odd", [{}, {"error": "lost", "errno": 22}, answer(mf_priority_map=None), answer(queues=[])]
)
def test_an_odd_answer_is_one_sentence(odd: dict[str, Any]) -> None:
    with pytest.raises(SchedulerError, match="unreadable"):
        banks_of(odd)


def test_banks_are_asked_for_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = recorded_flux(tmp_path / "flux", monkeypatch)
    fake.says("state", json.dumps(state(banks=answer())))
    flux = Flux()
    first, second = flux.read(full=False), flux.read(full=False)
    assert first.rights is not None
    assert second.rights is first.rights
    assert [call.endswith(" banks") for call in fake.calls] == [True, False]
