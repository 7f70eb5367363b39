"""A scheduler under test, and what a test must know of it."""

from __future__ import annotations

from dataclasses import dataclass

from fake_commands import FakeCommands

from berth.plugin.scheduler import Scheduler


@dataclass
class Case:
    """One of them."""

    scheduler: Scheduler
    cpu: str
    """A queue of plain nodes."""
    gpu: str
    gres: str
    """What its GPUs are called."""
    fake: FakeCommands | None = None
