"""Services in this process, without a daemon around them."""

from __future__ import annotations

import json
import time
import tomllib
from pathlib import Path
from types import MappingProxyType
from typing import Any

from berth_daemon import SITE, forecast

from berth.pilot.documents import validate
from berth.plugin.daemon.app import view
from berth.plugin.daemon.record import Answered
from berth.plugin.daemon.service import Service
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.daemon.view import Snapshot
from berth.plugin.site import Site
from berth.plugin.site.document import SiteDocument
from berth.plugin.site.load import build_site
from berth.policies.values import CandidateState
from berth.predictor.core.forecast import Forecast


def site_of(
    mode: str = "enforce",
    *,
    coverage: str = "",
    fit: str = 'mode = "off"',
    folder: str = "/nonexistent",
) -> Site:
    """The tests' site, as if read from ``folder``/berth.toml; ``fit``: its table ``[fit]``."""
    text = SITE.format(mode=mode, store="unused.db", user="root", daemon="", coverage=coverage)
    text = text.replace('[fit]\nmode = "off"', f"[fit]\n{fit}", 1)
    path = Path(folder) / "berth.toml"
    return build_site(validate(tomllib.loads(text), SiteDocument, source=path), path)


def snapshot_of(site: Site, **changes: Any) -> Snapshot:
    """Every candidate up and idle, read just now."""
    facts = {"up": True, "idle_cores": 64, "idle_gpus": 4, "pending_jobs": 0, **changes}
    states = {c.name: CandidateState(as_of_s=time.time(), **facts) for c in site.candidates}
    return Snapshot(MappingProxyType(states), time.time(), time.monotonic())


def quiet_service() -> Service:
    """A service in mode enforce that knows no workload and keeps no record."""
    return Service(view(site_of()), lambda _: None)


def knowing_service(
    *forecasts: Forecast, site: Site | None = None
) -> tuple[Service, list[Answered]]:
    """A service that knows these forecasts (default: ``stream``), and what it records."""
    recorded: list[Answered] = []
    site = site or site_of()
    service = Service(view(site), recorded.append)
    service.shelf = Shelf.of(forecasts or (forecast("stream"),))
    service.snapshot = snapshot_of(site)
    return service, recorded


ASK = {"user": "alice", "uid": 1000, "kind": "batch", "queue": "auto", "comment": "berth:stream"}


def decide(service: Service, **job: Any) -> dict[str, Any]:
    """Return the reply about alice's job for `auto`, with ``job`` changed in it."""
    message = {"v": 1, "op": "decide", "scheduler": "slurm", "job": {**ASK, **job}}
    reply = json.loads(service.handle(json.dumps(message).encode()))
    assert service.stats.counts["internal-errors"] == 0
    assert isinstance(reply, dict)
    return reply
