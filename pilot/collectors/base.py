"""The interface of collectors, and their result.

A collector object is used for one run of the program. ``probe`` returns why it cannot be used on
this machine, ``prepare`` may wrap the command, ``watch`` is called while the program runs, and
``finish`` returns the counters. A minimal collector::

    class LoadCollector(Collector):
        name = "load"
        def probe(self) -> str | None: return None
        def finish(self, outcome: Outcome) -> Readings:
            return Readings({"cpu_time_s": measured("load", outcome.usage["ru_utime"])})
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Protocol

from berth.pilot.launch import Order, Outcome
from berth.pilot.profile import Measurement, Quality


@dataclass(frozen=True, slots=True)
class Readings:
    """The results of a collector: catalogue name -> counter, a detail for the report, warnings."""

    counters: Mapping[str, Measurement] = field(default_factory=dict)
    detail: str = ""
    warnings: tuple[str, ...] = ()
    failed: bool = False
    complete: bool = True
    """False: the counters cover only a part of the program."""
    seen: float | None = None
    """Number of instructions as the tool counts them; None: the same as the counter
    ``instructions``."""
    gpus_used: int = 0
    """Number of GPUs that the program's processes used."""
    sets: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Executable or library -> instruction sets that it executed, such as ``avx2``."""
    stopped: bool = False
    """True: the emulator stopped at an unknown instruction, so that its counts are unusable."""


class Stage(StrEnum):
    """Kind of run of the pilot that a collector needs."""

    NATIVE = "native"
    """The first native run, which is timed: the collector must not slow the program down."""
    OWN_RUN = "own run"
    """An extra run for this collector alone."""
    EMULATED = "emulated"
    """An extra slow run, which shares the time limit of all emulated runs."""


class Collector(Protocol):
    """One source of counters. An entry point of ``berth.collectors`` names the class."""

    name: str
    """Name of the collector in the Profile and in ``--collectors``."""
    stage: ClassVar[Stage] = Stage.NATIVE
    why_missing: ClassVar[str] = "{name} was not used: {detail}"
    """Template of the reason that a counter is missing which only this collector gives."""
    not_seen: ClassVar[str] = "not counted"
    """The ``detail`` in that reason if the collector was used but gave no such counter."""
    covered_by: tuple[str, ...] = ()
    """Names of collectors that give the same counters and more; this collector is skipped if one of
    them is used."""

    def __init__(self, folder: Path | None = None) -> None:
        """Create the collector; ``folder``: path for its files, which ``prepare`` creates."""

    @classmethod
    def runs(cls, folder: Path) -> Sequence[Collector]:
        """Return the collectors of one pilot: one for each run of the program that is needed."""
        return (cls(folder),)

    @abstractmethod
    def probe(self) -> str | None:
        """Return why the collector cannot be used on this machine, or None if it can.

        The reason is a sentence without a full stop.
        """
        ...

    def prepare(self, order: Order) -> Order:
        """Return the order to run in place of ``order``, for example with the command wrapped."""
        return order

    def again(self, order: Order) -> Order | None:
        """Return an order to try after ``order`` failed, or None to give up."""
        return None

    def plainly(self, order: Order) -> Order | None:
        """Return the order that emulates a processor with x86-64-v2 only, to see which instruction
        sets the program then executes. None: the collector does not support this."""
        return None

    def sets_seen(self, outcome: Outcome) -> Mapping[str, frozenset[str]] | None:
        """Return file -> instruction sets executed in the run of ``plainly``; None: it failed."""
        return None

    def watch(self, shepherd_pid: int) -> None:
        """Sample the running program; called every ``TICK_S`` seconds.

        The program's processes are descendants of ``shepherd_pid``.
        """
        return

    @abstractmethod
    def finish(self, outcome: Outcome) -> Readings:
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
