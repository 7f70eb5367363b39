"""Jobs with ``--gres=gpu:1`` where a GPU may be a slice: typed, or told."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from berth_daemon import SITE, forecast
from made_forecasts import around, curve
from views import knowing_service, snapshot_of

from berth.pilot.documents import validate
from berth.plugin.daemon.service import Service
from berth.plugin.daemon.view import Snapshot
from berth.plugin.site import Site
from berth.plugin.site.document import SiteDocument
from berth.plugin.site.load import build_site

SLICES = """
[[candidates]]
name = "slice"
platform = "a100-40gb"
partition = "mig"
cores_per_node = 64
[candidates.slices]
profiles = ["1g.5gb", "2g.10gb"]
"""
TYPES = ("gpu:1g.5gb", "gpu:2g.10gb", "gpu:off1", "gpu:off2")
JOB = {"user": "alice", "uid": 1000, "kind": "batch", "gres": "gres:gpu:1", "tasks": 1}


def site_with_slices(mode: str = "enforce") -> Site:
    text = SITE.format(mode=mode, store="unused.db", user="root", daemon="", coverage="")
    path = Path("/nonexistent/berth.toml")
    text = f'{text}{SLICES}\n[messages]\nshow = "all"\n'
    return build_site(validate(tomllib.loads(text), SiteDocument, source=path), path)


def service_of(site: Site | None = None, *, types: tuple[str, ...] = TYPES) -> Service:
    site = site or site_with_slices()
    made = forecast("net", platforms=())
    times = {"a100-40gb-mig-1g.5gb": 900.0, "a100-40gb-mig-2g.10gb": 500.0, "a100-80gb": 100.0}
    curves = {
        p: curve("net", p, {1: around(s)}, gpu=True, memory=around(2e9), reference_s=600.0)
        for p, s in times.items()
    }
    service, _ = knowing_service(replace(made, curves=curves), site=site)
    states = snapshot_of(site).states
    there = {name: replace(state, gpu_types=types) for name, state in states.items()}
    service.snapshot = replace(snapshot_of(site), states=MappingProxyType(there))
    return service


def decide(service: Service, **job: Any) -> dict[str, Any]:
    message = {"v": 1, "op": "decide", "scheduler": "slurm", "job": {**JOB, **job}}
    reply = json.loads(service.handle(json.dumps(message).encode()))
    assert service.stats.counts["internal-errors"] == 0
    assert isinstance(reply, dict)
    return reply


def test_in_ones_own_partition_the_slice_that_will_do_is_named_and_nothing_else() -> None:
    reply = decide(service_of(), queue="mig", comment="berth:net")
    assert reply["edits"] == {"gres": "gpu:1g.5gb:1"}
    assert "berth:off" in reply["message"]


@pytest.mark.parametrize("gres", ["gpu:2g.10gb:1", "gpu:1,shard:1", None])
def test_other_jobs_in_ones_own_partition_are_left_alone(gres: str | None) -> None:
    reply = decide(service_of(), queue="mig", comment="berth:net", gres=gres)
    assert (reply["action"], reply["code"]) == ("keep", "own-queue")


def test_a_partition_without_slices_is_nobodys_business() -> None:
    reply = decide(service_of(), queue="gpu")
    assert reply["code"] == "own-queue"
    assert "message" not in reply


@pytest.mark.parametrize("comment", [None, "berth:nobody"])
def test_without_a_profile_the_user_is_told_which_types_there_are(comment: str | None) -> None:
    reply = decide(service_of(), queue="mig", comment=comment)
    assert (reply["action"], reply["code"]) == ("keep", "untyped-gpu")
    assert "switched off" in reply["message"]
    assert "--gres=gpu:1g.5gb:1, --gres=gpu:2g.10gb:1." in reply["message"]
    assert "off1" not in reply["message"]


def test_without_padding_nothing_is_said_to_be_switched_off() -> None:
    reply = decide(service_of(types=("gpu:1g.5gb",)), queue="mig")
    assert "a slice of any size." in reply["message"]
    none_known = service_of()
    none_known.snapshot = Snapshot()
    assert decide(none_known, queue="mig")["message"].endswith("Name one.")


@pytest.mark.parametrize(
    ("site", "job"),
    [
        ({"mode": "shadow"}, {"comment": None}),
        ({}, {"pinned": ["nodelist"]}),  # nothing is decided for such a job
        ({}, {"scheduler_since_s": 4_000_000_000}),  # the slices were read before
    ],
)
def test_a_job_that_keeps_its_untyped_gpu(site: dict[str, str], job: dict[str, Any]) -> None:
    service = service_of(site_with_slices(**site))
    reply = decide(service, **{"queue": "mig", "comment": "berth:net"} | job)
    assert (reply["action"], reply["code"]) == ("keep", "untyped-gpu")
    assert ("message" in reply) == (site.get("mode") != "shadow")


def test_asking_berth_to_choose_gives_partition_and_type_at_once() -> None:
    site = site_with_slices()
    only = tuple(c for c in site.candidates if c.slice_of)
    reply = decide(service_of(replace(site, candidates=only)), queue="auto", comment="berth:net")
    assert (reply["edits"]["queue"], reply["edits"]["gres"]) == ("mig", "gpu:1g.5gb:1")


def test_nothing_is_cut_for_jobs_that_do_better_elsewhere() -> None:
    """Slices in the stamp are what `berth mig auto` cuts for."""
    service = service_of()
    reply = decide(service, queue="auto", comment="berth:net")
    assert "to=gpu" in reply["stamp"]
    assert "slices=" not in reply["stamp"], "a slice was there, and a whole GPU is faster"
    states = dict(service.snapshot.states)
    for name in ("slice-1g.5gb", "slice-2g.10gb"):
        states[name] = replace(states[name], usable_nodes=0)
    service.snapshot = replace(service.snapshot, states=MappingProxyType(states))
    reply = decide(service, queue="auto", comment="berth:net")
    assert "slices=1g.5gb,2g.10gb" in reply["stamp"], "nobody knows which it would have been"


FLUX = """
schema = "berth.site/1"
mode = "enforce"
[site]
scheduler = "flux"
auto_queue = "auto"
[[candidates]]
name = "slice"
platform = "a100-40gb"
queue = "mig-{profile}"
cores_per_node = 64
[candidates.slices]
profiles = ["1g.5gb", "2g.10gb"]
"""


def test_on_flux_the_slice_is_a_queue_and_only_one_that_has_nodes() -> None:
    path = Path("/nonexistent/berth.toml")
    site = build_site(validate(tomllib.loads(FLUX), SiteDocument, source=path), path)
    service = service_of(site, types=("gpu",))
    job = {"queue": "auto", "workload": "net", "gres": None, "gpus": 1}
    message = {"v": 1, "op": "decide", "scheduler": "flux", "job": {**JOB, **job}}
    ask = json.dumps(message).encode()
    first = json.loads(service.handle(ask))
    assert (first["edits"]["queue"], first["edits"]["gres"]) == ("mig-1g.5gb", "gpu:1")
    states = dict(service.snapshot.states)
    states["slice-1g.5gb"] = replace(states["slice-1g.5gb"], usable_nodes=0)
    service.snapshot = replace(service.snapshot, states=MappingProxyType(states))
    second = json.loads(service.handle(ask))
    assert second["edits"]["queue"] == "mig-2g.10gb"
    assert "slices=1g.5gb,2g.10gb" in second["stamp"]
