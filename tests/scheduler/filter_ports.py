"""Either scheduler's submit filter behind one interface, which submits jobs for queue ``auto``."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
from filter_bench import FilterBench
from flux_bench import FluxBench, asking


@dataclass(frozen=True)
class Submitted:
    """What a number of equal submissions came to."""

    queue: str
    """The last job's queue; ``auto``: it stays as its user wrote it."""
    seconds: list[float]
    """How long each took."""
    log: str


class FilterPort(Protocol):
    """One filter with its settings."""

    settings: dict[str, Any]

    @property
    def socket(self) -> Path:
        """Where it looks for the daemon."""
        ...

    @property
    def kill_switch(self) -> Path:
        """The file that turns it off."""
        ...

    def submit(self, times: int = 1, *, pause_s: float = 0.0) -> Submitted:
        """Submit equal jobs one after another, and assert that none of them is lost."""
        ...


@dataclass
class SlurmPort:
    """job_submit.lua, loaded afresh for each call of ``submit``."""

    bench: FilterBench
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def socket(self) -> Path:
        return self.bench.socket

    @property
    def kill_switch(self) -> Path:
        return self.bench.folder / "off"

    def submit(self, times: int = 1, *, pause_s: float = 0.0) -> Submitted:
        self.bench.settings = self.settings
        outcome = self.bench.submit({"partition": "auto"}, submissions=times, pause_s=pause_s)
        assert outcome.codes == [0] * times
        queue = outcome.job["partition"]
        assert queue != "auto" or "admin_comment" not in outcome.job
        return Submitted(queue, outcome.seconds, "\n".join(outcome.log))


@dataclass
class FluxPort:
    """frobnicator.py in this process: it goes on from one call of ``submit`` to the next."""

    bench: FluxBench
    capture: pytest.CaptureFixture[str]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def socket(self) -> Path:
        return self.bench.socket

    @property
    def kill_switch(self) -> Path:
        return self.bench.kill_switch

    def submit(self, times: int = 1, *, pause_s: float = 0.0) -> Submitted:
        self.bench.settings = self.settings
        seconds_before = len(self.bench.seconds)
        spec: dict[str, Any] = {}
        for _ in range(times):
            spec = self.bench.frob(asking())
            time.sleep(pause_s)
        queue = spec["attributes"]["system"]["queue"]
        assert queue != "auto" or spec == asking()
        written = self.capture.readouterr()
        assert written.out == "", "stdout carries Flux's replies"
        return Submitted(queue, self.bench.seconds[seconds_before:], written.err)
