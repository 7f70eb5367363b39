"""What every collector offers, and what it hands back.

A collector serves one launch: ``probe`` says whether this machine has it, ``prepare`` may wrap
the command, ``watch`` is called while the program runs, ``finish`` turns what was seen into
counters. A minimal one::

    class Nothing:
        name = "nothing"
        def probe(self) -> str | None: return None
        def prepare(self, order: Order) -> Order: return order
        def watch(self, shepherd_pid: int) -> None: ...
        def finish(self, outcome: Outcome) -> Readings: return Readings()
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from berth.pilot.launch import Order, Outcome
from berth.pilot.profile import Measurement, Quality


@dataclass(frozen=True, slots=True)
class Readings:
    """What one collector read: counters by catalogue name, a word on how, and warnings."""

    counters: Mapping[str, Measurement] = field(default_factory=dict)
    detail: str = ""
    warnings: tuple[str, ...] = ()
    failed: bool = False
    seen: float | None = None
    """Instructions as the tool counts them, where that is not its ``instructions`` counter."""


class Collector(Protocol):
    """One source of counters for one launch of the program."""

    @property
    def name(self) -> str:
        """Its name in the Profile and for ``--collectors``."""
        ...

    def probe(self) -> str | None:
        """None when it can be used here, else why not (one sentence, no final stop)."""
        ...

    def prepare(self, order: Order) -> Order:
        """The order to run instead: the command wrapped, the environment completed."""
        ...

    def watch(self, shepherd_pid: int) -> None:
        """Called every fraction of a second while the program runs."""
        ...

    def finish(self, outcome: Outcome) -> Readings:
        """Read the results of the launch that ended with ``outcome``."""
        ...


def measured(source: str, value: float, note: str | None = None) -> Measurement:
    """A value that was measured on the real machine."""
    return Measurement(value=value, quality=Quality.MEASURED, source=source, note=note)


def emulated(source: str, value: float, note: str | None, *, complete: bool) -> Measurement:
    """A value counted by an emulator."""
    return Measurement(
        value=value, quality=Quality.EMULATED, source=source, note=note, complete=complete
    )
