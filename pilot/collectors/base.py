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
    """What one collector read: counters by catalogue name, a word on how, and warnings."""

    counters: Mapping[str, Measurement] = field(default_factory=dict)
    detail: str = ""
    warnings: tuple[str, ...] = ()
    failed: bool = False
    complete: bool = True
    """False: of a part of the program only."""
    seen: float | None = None
    """Instructions as the tool counts them, where that is not its ``instructions`` counter."""
    gpus_used: int = 0
    """On how many GPUs the program's processes were seen."""
    sets: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By object file: instruction sets that it executed, as ``avx2``."""
    stopped: bool = False
    """At an instruction that the emulator does not know: what was counted is worth nothing."""


class Stage(StrEnum):
    """On which of the pilot's runs a collector works."""

    NATIVE = "native"
    """The first native run, whose time counts: it must not slow the program down."""
    OWN_RUN = "own run"
    """A run of its own."""
    EMULATED = "emulated"
    """A slow run of its own, beside other such runs and within their budget."""


class Collector(Protocol):
    """One source of counters. An entry point of ``berth.collectors`` names the class."""

    name: str
    """In the Profile and for ``--collectors``."""
    stage: ClassVar[Stage] = Stage.NATIVE
    why_missing: ClassVar[str] = "{name} was not used: {detail}"
    """Why a counter of the catalogue is missing that only such collectors give."""
    not_seen: ClassVar[str] = "not counted"
    """The ``detail`` of that where it was used and saw nothing."""
    covered_by: tuple[str, ...] = ()
    """Collectors whose run gives the same and more: where one is used this one is skipped."""

    def __init__(self, folder: Path | None = None) -> None:
        """``folder``: for its files; made by who uses it."""

    @classmethod
    def runs(cls, folder: Path) -> Sequence[Collector]:
        """The collectors of one pilot: one, or several where it needs several runs."""
        return (cls(folder),)

    @abstractmethod
    def probe(self) -> str | None:
        """None when it can be used here, else why not (one sentence, no final stop)."""
        ...

    def prepare(self, order: Order) -> Order:
        """The order to run instead: the command wrapped, the environment completed."""
        return order

    def again(self, order: Order) -> Order | None:
        """What to run instead of ``order``, which the program failed at; None: nothing."""
        return None

    def plainly(self, order: Order) -> Order | None:
        """What to run to see what is executed where the processor offers no more than x86-64-v2;
        None: this collector has no such run."""
        return None

    def sets_seen(self, outcome: Outcome) -> Mapping[str, frozenset[str]] | None:
        """By object file: instruction sets executed in the run of ``plainly``; None: it failed."""
        return None

    def watch(self, shepherd_pid: int) -> None:
        """Called every fraction of a second while the program runs."""
        return

    @abstractmethod
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
