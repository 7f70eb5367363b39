"""Runs job_submit.lua under a plain Lua 5.1 with a stand-in for Slurm (``stub_slurm.lua``)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from berth.plugin.slurm.filter import FILTER_PATH

STUB = Path(__file__).with_name("stub_slurm.lua")


def partition(**given: Any) -> dict[str, Any]:
    """A partition record as Slurm's Lua shows it: up, without limits."""
    record: dict[str, Any] = {
        "state_up": 3,
        "flags": 0,
        "max_time": 1440,
        "default_time": 60,
        "max_nodes": 4294967295,
        "min_nodes": 0,
        "total_nodes": 4,
        "total_cpus": 128,
    }
    return {key: value for key, value in {**record, **given}.items() if value is not None}


def partitions(**extra: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: partition() for name in ("auto", "cpu", "gpu", "mig")} | extra


@dataclass(frozen=True)
class Outcome:
    """What one run of the filter did."""

    job: dict[str, Any]
    environment: dict[str, str] | None
    user: list[str]
    log: list[str]
    complaints: list[str]
    seconds: list[float]
    codes: list[int]
    modify: int
    reads: int
    """How often a field of the job was read, each time a search by its name in slurmctld."""


@dataclass
class FilterBench:
    """Where the filter finds its configuration and its daemon."""

    folder: Path
    settings: dict[str, object] = field(default_factory=dict)

    @property
    def socket(self) -> Path:
        return self.folder / "berth.sock"

    def submit(
        self,
        job: Mapping[str, Any] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        parts: Mapping[str, Any] | None = None,
        batch: bool = True,
        prelude: str = "",
        **order: Any,
    ) -> Outcome:
        """Submit one job ``submissions`` times (default once) through a freshly loaded filter."""
        config = {
            "socket": self.socket,
            "kill_switch": self.folder / "off",
            "deadline_ms": 1000,
            **self.settings,
        }
        path = self.folder / "filter.conf"
        path.write_text("".join(f"{key} = {value}\n" for key, value in config.items()))
        fields: dict[str, Any] = {"user_id": 5, "user_name": "games", "name": "job"}
        if batch:
            fields["script"] = "#!/bin/sh\ntrue\n"
        fields.update(job or {})
        given = {
            "filter": str(FILTER_PATH),
            "job": {key: value for key, value in fields.items() if value is not None},
            "environment": dict(environment or {}) if batch else None,
            "partitions": dict(parts if parts is not None else partitions()),
            **order,
        }
        if given["environment"] is None:
            del given["environment"]
        done = subprocess.run(
            ["lua5.1", "-e", prelude, str(STUB)],
            input=json.dumps(given),
            env={**os.environ, "BERTH_FILTER_CONFIG": str(path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        found = json.loads(done.stdout)
        for key in ("environment", "job"):
            found.setdefault(key, None)
            found[key] = dict(found[key]) if found[key] is not None else None
        return Outcome(**{**found, **{k: list(found[k]) for k in ("user", "log", "complaints")}})


def require_lua() -> None:
    """Skip loudly where a plain Lua with the filter's libraries is missing."""
    if shutil.which("lua5.1") is None:
        pytest.skip("no lua5.1 here; `make slurm` installs it with lua-socket and lua-cjson")
    probe = subprocess.run(
        ["lua5.1", "-e", "require 'socket.unix' require 'cjson'"], capture_output=True, check=False
    )
    if probe.returncode != 0:
        pytest.skip("lua-socket or lua-cjson is missing; `make slurm` installs them")
