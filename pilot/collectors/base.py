"""The interface of collectors (sources of counters), and the type of their results.

A collector object is used for one run of the program. ``probe`` returns why it cannot be used on
this machine, ``prepare`` may wrap the command, ``watch`` is called while the program runs, and
``finish`` returns the counters. A minimal collector::

    class LoadCollector(Collector):
        name = "load"
        def probe(self) -> str | None: return None
        def finish(self, outcome: ProcessResult) -> Readings:
            return Readings({"cpu_time_s": measured("load", outcome.usage["ru_utime"])})
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Protocol

from berth.pilot.launch import Order, ProcessResult
from berth.pilot.profile import Measurement, Quality


@dataclass(frozen=True, slots=True)
class Readings:
    """The results of a collector: counters by catalogue name, a detail for the report, warnings."""

    counters: Mapping[str, Measurement] = field(default_factory=dict)
    detail: str = ""
    warnings: tuple[str, ...] = ()
    failed: bool = False
    complete: bool = True
    """False where the counters cover only a part of the program's run."""
    gpus_used: int = 0
    """Number of GPUs that the program's processes used."""
    memory: tuple[float, float] | None = None
    """Bytes between which the largest memory of all processes together lies, without page cache."""


class Stage(StrEnum):
    """The kind of pilot run that a collector needs: native or emulated."""

    NATIVE = "native"
    """The first native run, which is timed: the collector must not slow the program down."""
    EMULATED = "emulated"
    """An extra slow run, which shares the time limit of all emulated runs; only with ``--count``.
    """


class Collector(Protocol):
    """A source of counters (perf, valgrind, NVML ...) for one run of the pilot.

    An entry point in the group ``berth.collectors`` names the class.
    """

    name: str
    """Name of the collector in the Profile and in ``--collectors``."""
    stage: ClassVar[Stage] = Stage.NATIVE
    why_missing: ClassVar[str] = "{name} was not used: {detail}"
    """Template of the reason for a missing counter that only this collector can measure."""
    not_seen: ClassVar[str] = "not counted"
    """The template's ``detail`` if the collector was used but did not return the counter."""

    def __init__(self, folder: Path | None = None) -> None:
        """Create the collector; its files go to ``folder``, which ``prepare`` creates."""

    @abstractmethod
    def probe(self) -> str | None:
        """Return why the collector cannot be used on this machine, or None if it can.

        The reason is a sentence without a full stop.
        """
        ...

    def prepare(self, order: Order) -> Order:
        """Return the launch order to run instead of ``order``; many wrap its command."""
        return order

    def watch(self, shepherd_pid: int) -> None:
        """Sample the running program; called every ``TICK_S`` seconds.

        The program's processes are descendants of ``shepherd_pid``.
        """
        return

    @abstractmethod
    def finish(self, outcome: ProcessResult) -> Readings:
        """Return the counters of the run that ended with ``outcome``."""
        ...


def measured(source: str, value: float, note: str | None = None) -> Measurement:
    """Return a Measurement of quality ``measured``: a value from the real machine."""
    return Measurement(value=value, quality=Quality.MEASURED, source=source, note=note)


def emulated(source: str, value: float, note: str | None, *, complete: bool) -> Measurement:
    """Return a Measurement of quality ``emulated``: a value counted by an emulator."""
    return Measurement(
        value=value, quality=Quality.EMULATED, source=source, note=note, complete=complete
    )
