"""Runs the frobnicator as Flux does, without Flux: loaded by its path, a jobspec at a time."""

from __future__ import annotations

import copy
import importlib.util
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from berth.plugin.flux.filter import FILTER_PATH

RECORDED = Path(__file__).with_name("recorded")
FORMS = tuple(
    sorted(p.stem for p in RECORDED.glob("*.json") if not p.stem.startswith(("rpc_", "R")))
)
"""Names of the recorded forms of a jobspec."""


def recorded(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_text())


def recorded_lines(name: str) -> list[Any]:
    return [json.loads(line) for line in (RECORDED / f"{name}.jsonl").read_text().splitlines()]


def load_filter(path: Path = FILTER_PATH) -> ModuleType:
    """The module, loaded as ``flux.importer.import_path`` does: not in ``sys.modules``."""
    spec = importlib.util.spec_from_file_location("frobnicator", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def flux_config(**settings: Any) -> dict[str, Any]:
    """The recorded configuration with queues auto, cpu, gpu and mig, and Berth's settings."""
    config: dict[str, Any] = recorded("rpc_config.get")
    config["queues"].update(auto={}, mig={"requires": ["mig-1g.5gb"]})
    config["ingest"]["frobnicator"]["berth"] = settings
    return config


class Jobspec:
    """What the frobnicator sees of Flux's class: the plain data in ``jobspec``."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.jobspec = spec


@dataclass
class FluxBench:
    """One worker with its frobnicator, configured at its first job."""

    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] | None = None
    module: ModuleType = field(default_factory=load_filter)
    seconds: list[float] = field(default_factory=list)
    """How long each job took."""
    _plugin: Any = None

    @property
    def socket(self) -> Path:
        """Where the filter looks for the daemon."""
        return self.folder / "berth.sock"

    @property
    def kill_switch(self) -> Path:
        """Make this file to turn the filter off."""
        return self.folder / "off"

    @property
    def plugin(self) -> Any:
        if self._plugin is None:
            settings = {
                "socket": str(self.socket),
                "kill_switch": str(self.kill_switch),
                "deadline_ms": 1000,
                **self.settings,
            }
            config = flux_config() if self.config is None else self.config
            config["ingest"]["frobnicator"]["berth"] = settings
            self._plugin = self.module.Frobnicator(parser=None)
            self._plugin.configure(None, config)
        return self._plugin

    def frob(self, spec: dict[str, Any], userid: int = 1000) -> dict[str, Any]:
        """The jobspec after the frobnicator. Asserts that the one given was not touched."""
        before = copy.deepcopy(spec)
        jobspec = Jobspec(spec)
        plugin = self.plugin
        started = time.perf_counter()
        plugin.frob(jobspec, userid, 16, 0)
        self.seconds.append(time.perf_counter() - started)
        assert spec == before, "the original jobspec was changed in place"
        return jobspec.jobspec


def asking(form: str = "n1", *, queue: str | None = "auto", **user: Any) -> dict[str, Any]:
    """A recorded form that asks Berth to choose for workload ``stream``."""
    spec: dict[str, Any] = recorded(form)
    system = spec["attributes"]["system"]
    system.pop("queue", None)
    if queue is not None:
        system["queue"] = queue
    spec["attributes"]["user"] = {"berth": {"workload": "stream", **user}}
    return spec


def without_notes(spec: dict[str, Any]) -> dict[str, Any]:
    """``spec`` without what Berth writes down about its decision."""
    plain = copy.deepcopy(spec)
    user = plain["attributes"].get("user", {})
    mine = user.get("berth", {})
    mine.pop("decision", None)
    mine.pop("message", None)
    if not mine:
        user.pop("berth", None)
    if not user:
        plain["attributes"].pop("user", None)
    return plain
