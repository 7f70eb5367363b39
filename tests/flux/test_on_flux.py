"""On a real Flux of four brokers: real jobs, a real daemon, and everything that can go wrong."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from berth_daemon import wait_until
from burst_check import submit, verify
from fake_daemon import FakeDaemon, Reply, move_to
from flux_daemon import FluxHarbour, flux_harbour
from flux_instance import ONLY_ON_FLUX, LiveFlux, frobnicators, live_flux

from berth.plugin.flux.filter import FILTER_PATH

pytestmark = ONLY_ON_FLUX
FAULTY = Path(__file__).with_name("faulty.py")
PATIENT = {"deadline_ms": 1000}  # on a busy machine
ASKS = ("--queue=auto", "--setattr=user.berth.workload=stream")


@pytest.fixture(scope="module")
def port() -> Iterator[tuple[LiveFlux, FluxHarbour]]:
    """An instance with our frobnicator, and a site with its daemon running."""
    with flux_harbour() as harbour:
        settings = harbour.settings(**PATIENT)
        with live_flux(frobnicators(str(FILTER_PATH), **settings)) as flux:
            harbour.uri = flux.uri
            harbour.start()
            yield flux, harbour


@pytest.fixture
def flux(port: tuple[LiveFlux, FluxHarbour]) -> Iterator[LiveFlux]:
    """The instance, with our frobnicator as it should be, and without jobs."""
    flux, harbour = port
    harbour.write_site()
    harbour.kill_switch.unlink(missing_ok=True)
    wait_until(lambda: harbour.daemons[-1].ask(op="ping")["mode"] == "enforce")
    wait_until(lambda: is_idle(harbour), timeout_s=60, what="the daemon knows that nothing runs")
    yield flux
    flux.run("cancel", "--all", "--user=all")
    flux.run("queue", "drain", "--timeout=60s")


def is_idle(harbour: FluxHarbour) -> bool:
    """Whether the daemon has seen the last test's jobs end: a busy place is not chosen."""
    places = harbour.daemons[-1].stats()["places"].values()
    idle = sum(place["idle_gpus"] for place in places)
    return bool(idle == 2 + 7 and not any(place["pending_jobs"] for place in places))


@pytest.fixture
def harbour(port: tuple[LiveFlux, FluxHarbour]) -> FluxHarbour:
    return port[1]


def system(flux: LiveFlux, job: str) -> dict[str, Any]:
    found: dict[str, Any] = flux.jobspec(job)["attributes"]["system"]
    return found


def notes(flux: LiveFlux, job: str) -> dict[str, Any]:
    user: dict[str, Any] = flux.jobspec(job)["attributes"].get("user", {})
    found: dict[str, Any] = user.get("berth", {})
    return found


# Jobs land where they should


@pytest.mark.parametrize(
    ("workload", "queue", "node", "gpu"),
    [
        ("stream", "gpu", "node2", True),
        ("serial", "auto", None, False),  # no faster elsewhere
        ("small", "mig-1g.10gb", "node3", True),
    ],
)
def test_a_job_runs_where_its_profile_belongs(
    flux: LiveFlux, workload: str, queue: str, node: str | None, gpu: bool
) -> None:
    words = ("--queue=auto", f"--setattr=user.berth.workload={workload}")
    job = flux.submit(*words, "sh", "-c", "echo GPU=$CUDA_VISIBLE_DEVICES")
    output = flux.run("job", "attach", job)
    given = json.loads(flux.run("job", "info", job, "R"))["execution"]
    assert system(flux, job)["queue"] == queue
    assert node is None or given["nodelist"] == [node]
    number = given["R_lite"][0]["children"].get("gpu")  # Fluxion gives the highest, sched-simple 0
    assert (number is not None and number.isdecimal()) is gpu
    assert not gpu or output.strip() == f"GPU={number}"
    to = {"auto": "code=stays", "mig-1g.10gb": "to=slice"}.get(queue, f"to={queue}")
    assert to in notes(flux, job)["decision"]


def test_the_decision_is_recorded_and_explained(flux: LiveFlux, harbour: FluxHarbour) -> None:
    job = flux.submit(*ASKS, "true")
    words = dict(word.split("=", 1) for word in notes(flux, job)["decision"].split()[1:])
    store = harbour.store()
    record = wait_until(lambda: store.decisions.get(words["id"]))
    assert record.scheduler == "flux"
    assert record.chosen == "gpu"
    assert record.user == "root" or record.user
    assert "opt out: --setattr=user.berth.mode=off" in notes(flux, job)["message"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--queue=cpu", "--setattr=user.berth.workload=stream"), "own-queue"),
        (("--queue=auto",), "no-workload"),
        (("--queue=auto", "--setattr=user.berth.workload=unheard-of"), "no-workload"),
        ((*ASKS, "--requires=rank:0"), "pinned-nodes"),
        ((*ASKS, "--requires=host:node0"), "pinned-nodes"),
        ((*ASKS, "--setattr=user.berth.mode=nonsense"), "bad-mode"),
        (("--queue=auto", "-N2", "--exclusive"), "no-workload"),
    ],
)
def test_a_job_that_is_kept_says_why(flux: LiveFlux, words: tuple[str, ...], code: str) -> None:
    job = flux.submit("--urgency=0", *words, "true")
    queue = next(w.partition("=")[2] for w in words if w.startswith("--queue"))
    assert system(flux, job)["queue"] == queue
    assert f"action=keep code={code}" in notes(flux, job)["decision"]


def test_opting_out_leaves_no_trace(flux: LiveFlux) -> None:
    job = flux.submit(*ASKS, "--setattr=user.berth.mode=off", "true")
    assert system(flux, job)["queue"] == "auto"
    assert notes(flux, job) == {"workload": "stream", "mode": "off"}


@pytest.mark.parametrize(("mode", "message"), [("shadow", False), ("advise", True)])
def test_lower_modes_change_nothing(
    flux: LiveFlux, harbour: FluxHarbour, mode: str, message: bool
) -> None:
    harbour.write_site(mode=mode)
    wait_until(lambda: harbour.daemons[-1].ask(op="ping")["mode"] == mode)
    job = flux.submit("--urgency=0", *ASKS, "true")
    assert system(flux, job)["queue"] == "auto"
    assert "action=keep code=placed to=gpu" in notes(flux, job)["decision"]
    assert ("message" in notes(flux, job)) is message


def test_the_kill_switch_stops_every_placement_at_once(
    flux: LiveFlux, harbour: FluxHarbour
) -> None:
    harbour.kill_switch.touch()
    job = flux.submit("--urgency=0", *ASKS, "true")
    assert notes(flux, job) == {"workload": "stream"}
    harbour.kill_switch.unlink()
    assert "decision" in notes(flux, flux.submit("--urgency=0", *ASKS, "true"))


@pytest.mark.parametrize("rank", range(4))
def test_every_broker_asks(flux: LiveFlux, rank: int) -> None:
    job = flux.run("exec", "-r", str(rank), "flux", "submit", "--urgency=0", *ASKS, "true")
    assert system(flux, job.strip())["queue"] == "gpu"


def test_a_nested_instance_is_placed_and_asks_nobody_itself(flux: LiveFlux) -> None:
    script = "#!/bin/sh\nflux submit --setattr=user.berth.workload=stream true\nflux queue drain\n"
    (flux.folder / "job.sh").write_text(script + "flux job info $(flux job last) jobspec\n")
    before = flux.run("jobs", "-a", "-n", "--count=1", "-o", "{id}")
    job = flux.run("batch", "-n1", *ASKS, "--output=out.txt", "job.sh").strip()
    flux.run("job", "wait-event", "-t", "60", job, "clean")
    assert job not in before
    assert system(flux, job)["queue"] == "gpu"
    inner = json.loads((flux.folder / "out.txt").read_text().splitlines()[-1])
    assert inner["attributes"]["user"]["berth"] == {"workload": "stream"}


def test_what_became_of_a_job_is_stored_beside_what_was_predicted(
    flux: LiveFlux, harbour: FluxHarbour
) -> None:
    words = ("--queue=auto", "--setattr=user.berth.workload=stream")
    ran = flux.submit(*words, "sleep", "0.2")
    # Of a workload that stays: where a moved one fails at once no other test's job is sent.
    failed = flux.submit("--queue=auto", "--setattr=user.berth.workload=serial", "false")
    plain = flux.submit("--queue=cpu", "--setattr=user.berth.mode=off", "true")
    for job in (ran, failed, plain):
        flux.run("job", "wait-event", "-t", "60", job, "clean")
    harbour.write_site(daemon="outcomes_refresh_s = 0.5")
    store = harbour.store()
    name = ran.replace("ƒ", "f")
    found = wait_until(lambda: store.outcomes.of_job(name), timeout_s=60)
    assert (found.cluster, found.state, found.partition) == ("tests", "completed", "gpu")
    assert (found.candidate, found.platform) == ("gpu", "h200-141gb")
    # Not 60 s where the daemon has learnt from what other tests ran.
    places = {
        row["candidate"]: row for row in json.loads(store.decisions.get(found.decision).ranked)
    }
    assert found.predicted_s == places["gpu"]["runtime_s"][1]
    assert (found.gpus, found.nodes, found.exit_status) == (1, 1, 0)
    assert 0.2 < found.elapsed_s < 60
    assert found.submit_s <= found.start_s <= found.end_s
    assert found.decision in notes(flux, ran)["decision"]
    other = wait_until(lambda: store.outcomes.of_job(failed.replace("ƒ", "f")))
    assert (other.state, other.exit_status) == ("failed", 1)
    assert store.outcomes.of_job(plain.replace("ƒ", "f")) is None
    wait_until(lambda: harbour.daemons[-1].stats()["problems"] == {})


# The filter or the daemon fails


@pytest.mark.parametrize("fault", ["hang", "print"])
def test_a_fault_in_the_filter_loses_swaps_and_changes_no_job(
    flux: LiveFlux, harbour: FluxHarbour, fault: str
) -> None:
    (harbour.folder / "fault").write_text(fault)
    flux.configure(frobnicators(str(FAULTY), **harbour.settings()))
    try:
        found = submit(flux, 200, queue="auto", workloads=["stream"])
        assert found["errors"] == {}
        verdict = verify(flux, found["ids"], None, "auto")
    finally:
        flux.configure(frobnicators(str(FILTER_PATH), **harbour.settings(**PATIENT)))
    assert (verdict.accepted, verdict.wrong) == (200, [])
    assert verdict.codes == {"untouched": 200}


@pytest.mark.parametrize("answer", [move_to("nowhere"), None], ids=["no such queue", "silence"])
def test_an_invalid_answer_changes_no_job(
    flux: LiveFlux, harbour: FluxHarbour, answer: Reply | None
) -> None:
    path = harbour.folder / "fake.sock"
    settings = {**harbour.settings(), "socket": str(path)}
    with FakeDaemon(path, lambda _: answer):
        flux.configure(frobnicators(str(FILTER_PATH), **settings))
        try:
            found = submit(flux, 100, queue="auto", workloads=["stream"])
            verdict = verify(flux, found["ids"], None, "auto")
        finally:
            flux.configure(frobnicators(str(FILTER_PATH), **harbour.settings(**PATIENT)))
    assert (verdict.accepted, verdict.wrong) == (100, [])
    assert verdict.codes == {"untouched": 100}


def test_what_flux_would_refuse_is_never_the_frobnicators_doing(
    flux: LiveFlux, harbour: FluxHarbour
) -> None:
    """Over the gpu queue's limit of 2 h: refused there, so the job is not sent there."""
    path = harbour.folder / "fake.sock"
    settings = {**harbour.settings(**PATIENT), "socket": str(path)}
    with FakeDaemon(path, lambda _: move_to("gpu")):
        flux.configure(frobnicators(str(FILTER_PATH), **settings))
        try:
            job = flux.submit("--urgency=0", *ASKS, "--time-limit=3h", "true")
            other = flux.submit("--urgency=0", *ASKS, "--time-limit=1h", "true")
        finally:
            flux.configure(frobnicators(str(FILTER_PATH), **harbour.settings(**PATIENT)))
    assert system(flux, job)["queue"] == "auto"
    assert system(flux, other)["queue"] == "gpu"


def test_jobs_go_on_unchanged_beside_a_daemon_that_is_stopped(
    flux: LiveFlux, harbour: FluxHarbour
) -> None:
    daemon = harbour.daemons[-1]
    daemon.process.send_signal(signal.SIGSTOP)
    found = submit(flux, 100, queue="auto", workloads=["stream"])
    verdict = verify(flux, found["ids"], None, "auto")
    assert (verdict.accepted, verdict.wrong, dict(verdict.codes)) == (100, [], {"untouched": 100})
    daemon.process.send_signal(signal.SIGCONT)
    wait_for_decisions(flux)


def wait_for_decisions(flux: LiveFlux) -> None:
    """Until the breaker, open after submissions without a daemon, closes again."""
    wait_until(
        lambda: "decision" in notes(flux, flux.submit("--urgency=0", *ASKS, "true")),
        timeout_s=60,
        what="the breaker closes again",
    )


def test_a_burst_with_a_daemon_that_comes_and_goes(flux: LiveFlux, harbour: FluxHarbour) -> None:
    """The benchmark does this with 10,000 jobs."""
    accepted: dict[int, int] = {}
    for turn in range(4):
        found = submit(flux, 100, first=100 * turn, queue="auto", workloads=["stream", "serial"])
        assert found["errors"] == {}
        accepted.update(found["ids"])
        if turn % 2 == 0:
            harbour.daemons[-1].stop(signal.SIGKILL)
        else:
            harbour.start()
    store = harbour.store()
    deadline = time.monotonic() + 20
    verdict = verify(flux, accepted, store, "auto")
    while verdict.wrong and time.monotonic() < deadline:  # the recorder is a little behind
        verdict = verify(flux, accepted, store, "auto")
    assert (verdict.accepted, verdict.wrong) == (400, [])
    assert verdict.codes["placed"] > 0
    wait_for_decisions(flux)  # the last turn ended without a daemon
