"""berth place replace: asks again about pending jobs that Berth placed; moves with --apply."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from berth_daemon import harbour
from click.testing import CliRunner, Result
from fake_commands import FakeCommands
from fake_daemon import KEEP, FakeDaemon, Reply, move_to
from fake_flux import recorded_flux, state
from flux_bench import asking, flux_config
from flux_daemon import SITE

from berth.pilot.errors import SchedulerError, UsageError
from berth.plugin.cli.place.replace import replace

JOB = {"jobid": "ƒ2Ppor5M", "userid": 1000, "state": "SCHED"}
STAMP = "berth/1 id=old1 action=edit code=placed to=cpu"


class Port:
    """A Flux with one pending job, and a daemon that answers as told."""

    def __init__(self, folder: Path, flux: FakeCommands) -> None:
        self.folder, self.flux = folder, flux
        self.site = folder / "berth.toml"
        self.site.write_text(
            SITE.format(mode="enforce", folder=folder, user=0, daemon="", refresh_s=1)
        )
        flux.says("state", json.dumps(state(**{"config.get": flux_config()})))
        flux.says("jobs", json.dumps({"jobs": [JOB]}))
        self.waits_in("cpu")

    def waits_in(self, queue: str, *, stamp: str | None = STAMP, **changes: Any) -> None:
        """The job was asked for the auto queue and is in ``queue`` now."""
        original = asking()
        current = copy.deepcopy(original)
        current["attributes"]["system"]["queue"] = queue
        current["attributes"]["system"]["constraints"] = {"properties": [f"{queue}node"]}
        current.update(changes)
        if stamp is not None:
            current["attributes"]["user"]["berth"]["decision"] = stamp
        self.flux.says("original", json.dumps(original))
        self.flux.says("jobspec", json.dumps(current))

    def run(self, answer: Callable[[Any], Reply | None], *words: str) -> Result:
        with FakeDaemon(self.folder / "berth.sock", answer) as daemon:
            done = CliRunner().invoke(replace, ["--site", str(self.site), *words])
            self.requests = daemon.requests
        return done

    @property
    def updates(self) -> list[str]:
        return [call for call in self.flux.calls if call.startswith("flux update")]


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Port]:
    with harbour() as made:  # for its short path
        yield Port(made.folder, recorded_flux(tmp_path / "flux", monkeypatch))


def test_without_apply_it_only_says_what_would_be(port: Port) -> None:
    done = port.run(lambda _: move_to("mig"), "--all")
    assert done.exit_code == 0, done.output
    assert "ƒ2Ppor5M  would move from cpu to mig" in done.output
    assert port.updates == []
    (request,) = port.requests
    assert request["job"]["queue"] == "auto"
    assert request["job"]["uid"] == 1000


def test_apply_updates_the_queue_and_the_limit(port: Port) -> None:
    done = port.run(lambda _: move_to("mig", time_limit_min=30), "--apply", "f2Ppor5M")
    assert "moved from cpu to mig" in done.output
    assert port.updates == ["flux update ƒ2Ppor5M queue=mig duration=1800s"]


def test_where_it_waits_is_still_best(port: Port) -> None:
    done = port.run(lambda _: move_to("cpu"), "--all", "--apply")
    assert "stays in cpu" in done.output
    done = port.run(lambda _: {**KEEP, "code": "stale-state"}, "--all", "--apply")
    assert "stays in cpu: stale-state" in done.output
    assert port.updates == []


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ({"gres": "gpu:1", "nodes": 1, "cpus_per_task": 8}, "other resources"),
        ({"tasks": 2}, "other resources"),
        ({"features": "fast"}, "other properties"),
        ({"nodes": 0}, "impossible"),
    ],
)
def test_what_flux_cannot_update_is_not_tried(port: Port, edits: dict[str, Any], why: str) -> None:
    done = port.run(lambda _: move_to("mig", **edits), "--all", "--apply")
    assert "mig is better now" in done.output
    assert why in done.output
    assert port.updates == []


def test_a_job_that_has_the_resources_moves(port: Port) -> None:
    """It was placed on a GPU with eight cores: another queue with the same."""
    slot = {
        "type": "slot",
        "count": 1,
        "with": [{"type": "core", "count": 8}, {"type": "gpu", "count": 1}],
        "label": "task",
    }
    port.waits_in("gpu", resources=[slot])
    edits = {"gres": "gpu:1", "nodes": 1, "cpus_per_task": 8}
    port.run(lambda _: move_to("mig", **edits), "--all", "--apply")
    assert port.updates == ["flux update ƒ2Ppor5M queue=mig"]


@pytest.mark.parametrize("stamp", [None, "berth/1 id=x action=keep code=own-queue", "other"])
def test_only_queues_that_berth_chose_are_looked_at(port: Port, stamp: str | None) -> None:
    port.waits_in("cpu", stamp=stamp)
    assert "no pending job" in port.run(lambda _: move_to("mig"), "--all", "--apply").output
    done = port.run(lambda _: move_to("mig"), "--apply", "ƒ2Ppor5M")
    assert "not chosen by Berth" in done.output
    assert port.requests == []
    assert port.updates == []


def test_fluxs_refusal_is_passed_on(port: Port) -> None:
    port.flux.fails("update", "flux-update: ERROR: unsatisfiable request\n")
    done = port.run(lambda _: move_to("mig"), "--all", "--apply")
    assert done.exit_code == 0
    assert "stays in cpu: Flux refused to move it to mig" in done.output
    assert "unsatisfiable" in done.output


def test_json_tells_the_same(port: Port) -> None:
    done = port.run(lambda _: move_to("mig"), "--all", "--json")
    (found,) = json.loads(done.output)
    assert (found["job"], found["queue"], found["to"]) == ("ƒ2Ppor5M", "cpu", "mig")
    assert (found["moved"], found["decision"]) == (False, "d1")


def test_wrong_usage_and_unreadable_lists(port: Port) -> None:
    for words in ((), ("--all", "f1")):
        assert isinstance(port.run(lambda _: KEEP, *words).exception, UsageError)
    port.flux.says("jobs", "[]")
    assert isinstance(port.run(lambda _: KEEP, "--all").exception, SchedulerError)
    port.site.write_text(port.site.read_text().replace('"flux"', '"slurm"'))
    assert isinstance(port.run(lambda _: KEEP, "--all").exception, UsageError)
