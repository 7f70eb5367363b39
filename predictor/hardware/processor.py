"""Processor: the data sheet of a CPU model, and the core that it is built of.

``processors.json`` is one table: microarchitectures (cores), CPU models, and product lines, which
say by a pattern of names which core a model has that the table does not list. ``processor_names``
finds them by name; ``core_speed`` tells how fast a core is.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import Field, model_validator

from berth.pilot.documents import Document, read_json
from berth.pilot.profile import Name, Positive

TABLE = Path(__file__).with_name("processors.json")


class Microarchitecture(Document):
    """A microarchitecture: what all processor models that are built of it share."""

    name: Name
    architecture: str
    instruction_set: str
    """The highest level of instruction sets that all its processors have: ``x86-64-v3``; empty:
    there are no levels."""
    year: int
    """Year in which its first processor could be bought."""
    vector_bits: int
    fma_units: int
    """Vector units that each start one fused multiply-add (or add and multiply) a cycle."""
    l1_bytes: Positive
    l2_bytes: Positive
    threads: int = Field(ge=1)
    """Hardware threads of a core."""
    bytes_per_s: Positive
    """Main memory's bandwidth that one core alone reaches, by rough published measurements."""
    family_models: tuple[tuple[int, int, int], ...] = ()
    """(family, first and last model) that an x86 processor with this core reports by ``cpuid``:
    Intel's Software Developer's Manual, volume 4, table 2-1, AMD's Processor Programming
    References, and Linux's lists of CPUs."""
    arm_parts: tuple[tuple[str, str], ...] = ()
    """(implementer, part) that an Arm processor with this core reports in its main ID register."""


class Processor(Document):
    """The data sheet of a processor model; all figures are of one socket."""

    name: Name
    model: str
    """As vendors write it: ``AMD EPYC 7742``."""
    aliases: tuple[str, ...] = ()
    core: Name
    """Of several kinds of cores: the fastest."""
    cores: int = Field(ge=1)
    """Of several kinds of cores: the number of the fastest."""
    base_hz: Positive
    boost_hz: Positive
    """Highest clock of a single busy core."""
    vector_bits: int | None = None
    """Width of its vector units where it differs from its core's (units that are switched off);
    on x86-64 the instruction sets of AVX-512 are then off, too."""
    l2_bytes: Positive | None = None
    """Second-level cache of a core where it differs from that of other models of its core."""
    l3_bytes: Positive | None = None
    l3_instances: int = Field(default=1, ge=1)
    """Number of L3 caches; by the layout of the chip, as vendors' lists do not have it."""
    memory_channels: int = Field(ge=1)
    bytes_per_s: Positive
    """Peak bandwidth of main memory."""
    source: str
    """Where the figures are from, and which of them were not verified."""

    @property
    def instruction_set(self) -> str:
        level = cores()[self.core].instruction_set
        return "x86-64-v3" if level == "x86-64-v4" and self.vector_bits is not None else level


class ProductLine(Document):
    """Models whose names fit a pattern, and which the table need not list one by one."""

    names: str
    """Regular expression of the beginning of simplified model names."""
    like: Name
    """A typical model of the line."""
    core: Name | None = None
    """Where the line has another core than that model."""
    clock_hz: Positive | None = None
    """Usual highest clock of the line where it is not that of the model."""


class ProcessorTable(Document):
    """The content of ``processors.json``."""

    schema_: str = Field(alias="schema")
    cores: tuple[Microarchitecture, ...]
    lines: tuple[ProductLine, ...]
    """The first whose pattern fits counts."""
    processors: tuple[Processor, ...]

    @model_validator(mode="after")
    def _all_named(self) -> ProcessorTable:
        known = {core.name for core in self.cores}
        models = {processor.name for processor in self.processors}
        used = [(p.name, p.core) for p in self.processors]
        used += [(line.names, line.core) for line in self.lines if line.core is not None]
        for name, core in used:
            if core not in known:
                raise ValueError(f"{name}: there is no core {core!r}")
        for line in self.lines:
            if line.like not in models:
                raise ValueError(f"{line.names}: there is no processor {line.like!r}")
        return self


@cache
def processor_table() -> ProcessorTable:
    return read_json(TABLE, ProcessorTable)


@cache
def processors() -> Mapping[str, Processor]:
    """Return all processor models of the catalogue by canonical name."""
    return {processor.name: processor for processor in processor_table().processors}


@cache
def cores() -> Mapping[str, Microarchitecture]:
    """Return all microarchitectures of the catalogue by name."""
    return {core.name: core for core in processor_table().cores}
