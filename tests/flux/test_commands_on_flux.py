"""berth site init, place, replace, decisions and doctor on a real Flux."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from berth_daemon import wait_until
from click.testing import CliRunner, Result
from flux_bench import FORMS, asking, recorded
from flux_daemon import FluxHarbour, flux_harbour
from flux_instance import ONLY_ON_FLUX, LiveFlux, frobnicators, live_flux

from berth.plugin.cli.jobs.decisions import decisions
from berth.plugin.cli.place.replace import replace
from berth.plugin.cli.site.doctor import doctor
from berth.plugin.cli.site.init import init
from berth.plugin.flux.filter import FILTER_PATH
from berth.plugin.scheduler import Job, scheduler_named
from berth.plugin.site import load_site
from berth.policies.values import Edit, Request, Resources

pytestmark = ONLY_ON_FLUX


@pytest.fixture(scope="module")
def port() -> Iterator[tuple[LiveFlux, FluxHarbour]]:
    with flux_harbour() as harbour:
        settings = harbour.settings(deadline_ms=1000)
        with live_flux(frobnicators(str(FILTER_PATH), **settings)) as flux:
            harbour.uri = flux.uri
            harbour.start()
            yield flux, harbour


@pytest.fixture
def flux(port: tuple[LiveFlux, FluxHarbour], monkeypatch: pytest.MonkeyPatch) -> LiveFlux:
    monkeypatch.setenv("FLUX_URI", port[0].uri)
    monkeypatch.chdir(port[0].folder)
    return port[0]


@pytest.fixture
def harbour(port: tuple[LiveFlux, FluxHarbour]) -> FluxHarbour:
    return port[1]


def run(command: Any, *words: str) -> Result:
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


def test_init_writes_a_site_file_of_the_instance(flux: LiveFlux, tmp_path: Path) -> None:
    output = tmp_path / "berth.toml"
    done = run(init, "--scheduler", "flux", "--output", str(output))
    site = load_site(output)
    assert [c.queue for c in site.candidates] == ["cpu", "old", "gpu", "mig-1g.10gb"]
    assert [c.platform for c in site.candidates][2:] != []
    gpu = site.candidates[2]
    assert (gpu.platform, gpu.gpus_per_node, gpu.max_time_s) == ("h200-141gb", 2, 7200.0)
    assert all((c.memory_bytes_per_node or 0) > 2**28 for c in site.candidates)
    assert site.auto_queue == "auto"
    assert "Wrote" in done.output


def held_of(resources: list[dict[str, Any]], count: int = 1) -> list[tuple[int, int, int]]:
    """Return (tasks, cores, GPUs) of each slot of a jobspec's resources (RFC 14)."""
    held = []
    for one in resources:
        times = count * one["count"]
        if one["type"] != "slot":
            held += held_of(one["with"], times)
            continue
        each = {leaf["type"]: leaf["count"] for leaf in one["with"]}
        held.append((times, times * each["core"], times * each.get("gpu", 0)))
    return held


def validated(flux: LiveFlux, spec: dict[str, Any]) -> None:
    answer = flux.run("job-validator", "--jobspec-only", stdin=json.dumps(spec) + "\n")
    assert json.loads(answer)["errnum"] == 0


@pytest.mark.parametrize(
    ("resources", "edit"),
    [
        (Resources(0, 1, 1), None),
        (Resources(0, 4, 2), Edit(queue="cpu")),
        (
            Resources(0, 1, 1),
            Edit("gpu", "h200", "gpu:1", resources=Resources(1, 1, 2, 1), time_limit_s=600.0),
        ),
        (Resources(0, 1, 1), Edit("gpu", None, "gpu:2", resources=Resources(1, 2, 2, 2))),
        (Resources(2, 4, 1), Edit("cpu", resources=Resources(2, 4, 1))),
    ],
)
def test_flux_makes_of_the_command_what_was_decided(
    flux: LiveFlux, resources: Resources, edit: Edit | None
) -> None:
    request = Request(user="ada", account=None, resources=resources, queue="cpu")
    job = Job(("true", "a b"), is_script=False, comment="berth:12")
    command = scheduler_named("flux").render(job, request, edit)
    spec = json.loads(flux.run(command[1], "--dry-run", *command[2:]))
    system = spec["attributes"]["system"]
    assert spec["tasks"][0]["command"] == ["true", "a b"]
    assert spec["attributes"]["user"] == {"berth": {"workload": "12"}}
    assert system["queue"] == ("cpu" if edit is None else edit.queue)
    assert system["duration"] == (0 if edit is None else edit.time_limit_s or 0)
    features = None if edit is None else edit.constraint
    assert system.get("constraints") == (features and {"properties": [features]})
    held = resources if edit is None else edit.resources or resources
    ((tasks, cores, gpus),) = held_of(spec["resources"])
    assert (tasks, cores, gpus) == (held.tasks, held.tasks * held.cpus_per_task, held.gpus)
    validated(flux, spec)


@pytest.mark.parametrize("form", FORMS)
def test_fluxs_validator_takes_what_the_filter_makes_of_each_form(
    flux: LiveFlux, form: str
) -> None:
    validated(flux, recorded(form))
    spec = asking(form)
    spec["attributes"]["system"].pop("dependencies", None)  # on a job that is not here
    job = flux.run("job", "submit", "--urgency=0", stdin=json.dumps(spec)).strip()
    accepted = flux.jobspec(job)
    assert "decision" in accepted["attributes"]["user"]["berth"]
    assert accepted["tasks"] == recorded(form)["tasks"]


def test_place_submits_where_it_decides(flux: LiveFlux, harbour: FluxHarbour) -> None:
    site = load_site(harbour.site_file)
    request = Request(user="ada", account=None, resources=Resources(0, 1, 1), time_limit_s=60.0)
    scheduler = scheduler_named("flux")
    command = scheduler.render(Job(("true",), False), request, Edit(queue="cpu"))
    job = scheduler.submit(command)
    flux.run("job", "wait-event", "-t", "30", job, "clean")
    outcome = scheduler.outcomes([job])[job]
    assert (outcome.state, outcome.partition) == ("completed", "cpu")
    assert site.scheduler == "flux"


def test_a_pending_job_moves_when_its_queue_stops(flux: LiveFlux, harbour: FluxHarbour) -> None:
    words = ("--urgency=0", "--queue=auto", "--setattr=user.berth.workload=uneven", "true")
    job = flux.submit(*words)
    other = flux.submit("--urgency=0", "--queue=cpu", "true")
    assert flux.jobspec(job)["attributes"]["system"]["queue"] == "cpu"
    site = ("--site", str(harbour.site_file))
    assert "stays in cpu" in run(replace, *site, job).output
    flux.run("queue", "stop", "cpu")
    try:
        daemon = harbour.daemons[-1]
        ask = {"user": "root", "queue": "auto", "workload": "uneven", "tasks": 1}
        wait_until(lambda: daemon.decide(scheduler="flux", **ask).get("code") == "stays")
        assert "would move from cpu to auto" in run(replace, *site, "--all").output
        assert flux.jobspec(job)["attributes"]["system"]["queue"] == "cpu"
        found = json.loads(run(replace, *site, "--all", "--apply", "--json").output)
        mine = next(one for one in found if one["job"][1:] == job[1:])  # f2x is ƒ2x
        assert (mine["to"], mine["moved"]) == ("auto", True)
        assert flux.jobspec(job)["attributes"]["system"]["queue"] == "auto"
        assert flux.jobspec(other)["attributes"]["system"]["queue"] == "cpu"
    finally:
        flux.run("queue", "start", "cpu")


def test_a_jobs_decision_is_shown(flux: LiveFlux, harbour: FluxHarbour) -> None:
    job = flux.submit("--queue=auto", "--setattr=user.berth.workload=stream", "true")
    store = f"sqlite:///{harbour.folder}/store.db"

    def shown() -> str:
        done = CliRunner().invoke(decisions, [job, "--store", store])
        return done.output if done.exit_code == 0 else ""

    assert "gpu" in wait_until(shown)


def test_the_doctor_finds_the_filter_and_the_instance(flux: LiveFlux, harbour: FluxHarbour) -> None:
    done = CliRunner().invoke(doctor, ["--site", str(harbour.site_file)])
    assert "flux 0." in done.output or "flux 1." in done.output
    assert "settings do not agree with the site file" in done.output  # the deadline is longer
