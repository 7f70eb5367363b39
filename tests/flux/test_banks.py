"""Queues that flux-accounting does not allow a user: recorded, and with its plugin on a Flux."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from berth_daemon import wait_until
from fake_flux import recorded_flux, state
from flux_bench import recorded
from flux_daemon import FluxHarbour, flux_harbour
from flux_instance import LiveFlux, frobnicators, live_flux, why_no_flux

from berth.pilot.errors import SchedulerError
from berth.plugin.flux import cluster
from berth.plugin.flux.cluster import Banks, banks_of
from berth.plugin.flux.filter import FILTER_PATH
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


# With flux-accounting


def why_no_accounting() -> str | None:
    """Why flux-accounting cannot be used here; None: it can."""
    missing = why_no_flux()
    if missing is not None:
        return missing
    where = Path(str(shutil.which("flux"))).resolve().parent.parent / "libexec/flux/cmd"
    return None if (where / "flux-account.py").exists() else "no `flux account` (flux-accounting)"


ONLY_WITH_ACCOUNTING = [
    pytest.mark.flux,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        why_no_accounting() is not None, reason=f"NOT TESTED LIVE: {why_no_accounting()}"
    ),
]
SERVICE = "exec flux account-service -p {file} -t >service.log 2>&1 </dev/null &"


@pytest.fixture(scope="module")
def accounted() -> Iterator[tuple[LiveFlux, FluxHarbour]]:
    """Bank physics opens auto and cpu, bank chem also gpu; the plugin is loaded."""
    with (
        flux_harbour() as harbour,
        live_flux(frobnicators(str(FILTER_PATH), **harbour.settings(deadline_ms=1000))) as flux,
    ):
        file = flux.folder / "accounting.db"
        flux.run("account", "-p", str(file), "create-db")
        flux.run("jobtap", "load", "mf_priority.so")
        flux.run("python", "-c", f"import os; os.system({SERVICE.format(file=file)!r})")
        wait_until(lambda: "registered" in (flux.folder / "service.log").read_text())
        for bank in ("root", "physics", "chem"):
            parent = () if bank == "root" else ("--parent-bank=root",)
            flux.run("account", "add-bank", *parent, bank, "1")
        for queue in ("auto", "cpu", "gpu"):
            flux.run("account", "add-queue", queue)
        user = pwd.getpwuid(os.getuid())
        who = (f"--username={user.pw_name}", f"--userid={user.pw_uid}")
        flux.run("account", "add-user", *who, "--bank=physics", "--queues=auto,cpu")
        flux.run("account", "add-user", *who, "--bank=chem", "--queues=auto,cpu,gpu")
        flux.run("account-priority-update", "-p", str(file))
        harbour.uri = flux.uri
        harbour.start()
        yield flux, harbour


class TestWithFluxAccounting:
    """On an instance with the plugin and its database."""

    pytestmark = ONLY_WITH_ACCOUNTING

    @pytest.mark.parametrize(("bank", "goes"), [("physics", False), ("chem", True)])
    def test_a_job_is_moved_only_where_its_bank_may_go(
        self, accounted: tuple[LiveFlux, FluxHarbour], bank: str, goes: bool
    ) -> None:
        flux, _ = accounted
        words = ("--urgency=0", "--queue=auto", f"--setattr=bank={bank}")
        job = flux.submit(*words, "--setattr=user.berth.workload=stream", "true")
        assert (flux.jobspec(job)["attributes"]["system"]["queue"] == "gpu") is goes

    def test_flux_accounting_refuses_what_berth_avoids(
        self, accounted: tuple[LiveFlux, FluxHarbour]
    ) -> None:
        flux, _ = accounted
        flux.run("submit", "--queue=gpu", "--setattr=bank=physics", "true", status=1)
        words = ("--urgency=0", "--queue=cpu", "--setattr=bank=physics")
        flux.run("update", flux.submit(*words, "true"), "queue=gpu", status=1)
