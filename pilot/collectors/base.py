"""What every collector offers, and what it hands back.

A collector serves one launch: ``probe`` says whether this machine has it, ``prepare`` may wrap
the command, ``watch`` is called while the program runs, ``finish`` turns what was seen into
counters. A minimal one::

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
    """A collector's results: counters by catalogue name, a word on how, and warnings."""

    counters: Mapping[str, Measurement] = field(default_factory=dict)
    detail: str = ""
    warnings: tuple[str, ...] = ()
    failed: bool = False
    complete: bool = True
    """False: of a part of the program only."""
    seen: float | None = None
    """Instructions as the tool counts them, where that is not its ``instructions`` counter."""
    gpus_used: int = 0
    """Number of GPUs on which the program's processes were seen."""
    sets: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Instruction sets that each object file executed, as ``avx2``."""
    stopped: bool = False
    """The emulator met an instruction that it does not know: its counts are worth nothing."""


class Stage(StrEnum):
    """The kind of the pilot's runs that a collector works on."""

    NATIVE = "native"
    """The first native run, whose time counts: it must not slow the program down."""
    OWN_RUN = "own run"
    """A run of its own."""
    EMULATED = "emulated"
    """A slow run of its own, beside other such runs and within their budget."""


class Collector(Protocol):
    """One source of counters. An entry point of ``berth.collectors`` names the class."""

    name: str
    """Its name in the Profile and for ``--collectors``."""
    stage: ClassVar[Stage] = Stage.NATIVE
    why_missing: ClassVar[str] = "{name} was not used: {detail}"
    """The reason for a missing counter of the catalogue that only such collectors give."""
    not_seen: ClassVar[str] = "not counted"
    """The ``detail`` of that where it was used and saw nothing."""
    covered_by: tuple[str, ...] = ()
    """Collectors whose run gives the same and more: where one is used this one is skipped."""

    def __init__(self, folder: Path | None = None) -> None:
        """Take ``folder`` for the collector's files; its user makes it."""

    @classmethod
    def runs(cls, folder: Path) -> Sequence[Collector]:
        """Return the collectors of one pilot: one, or several where it needs several runs."""
        return (cls(folder),)

    @abstractmethod
    def probe(self) -> str | None:
        """Say in a sentence without final stop why it cannot be used here; None: it can."""
        ...

    def prepare(self, order: Order) -> Order:
        """Return the order to run instead: the command wrapped, the environment completed."""
        return order

    def again(self, order: Order) -> Order | None:
        """Return what to run instead of ``order``, which the program failed at; None: nothing."""
        return None

    def plainly(self, order: Order) -> Order | None:
        """Return the run that shows what is executed on a processor of no more than x86-64-v2;
        None: this collector has no such run."""
        return None

    def sets_seen(self, outcome: Outcome) -> Mapping[str, frozenset[str]] | None:
        """Return the instruction sets executed in the run of ``plainly``, by file; None: it
        failed."""
        return None

    def watch(self, shepherd_pid: int) -> None:
        """Look at the program; called every fraction of a second while it runs."""
        return

    @abstractmethod
    def finish(self, outcome: Outcome) -> Readings:
        """Read the results of the launch that ended with ``outcome``."""
        ...


def measured(source: str, value: float, note: str | None = None) -> Measurement:
    """Return a value that was measured on the real machine."""
    return Measurement(value=value, quality=Quality.MEASURED, source=source, note=note)


def emulated(source: str, value: float, note: str | None, *, complete: bool) -> Measurement:
    """Return a value counted by an emulator."""
    return Measurement(
        value=value, quality=Quality.EMULATED, source=source, note=note, complete=complete
    )
