"""Processor: the data sheet of a CPU model, and where to find one by the names that CPUs go by.

``processors.json`` holds models of servers and desktops, with the core that they are built of. Some
have a score: the speed of one core on whole programs, measured alike on all of them. The other
models have none, and none is invented: ``core_speed`` estimates theirs with a wider interval.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import Field, model_validator

from berth.pilot.documents import Document, read_json
from berth.pilot.errors import UsageError
from berth.pilot.platform import CoreScore
from berth.pilot.profile import Name, Positive

TABLE = Path(__file__).with_name("processors.json")
_NOISE = re.compile(
    r"\((?:r|tm)\)|@.*|\b(?:amd|intel|aws|ibm|cpu|processor|\d+-core|\d+th gen|with .*graphics)\b"
)
_FIRST_VERSION = re.compile(r"\b(e[357]-\d{4}l?) 0\b")
"""Linux calls the first version of an Intel E5 ``E5-2670 0``, its second ``E5-2670 v2``."""
_FAMILY = re.compile(r"\(family (\d+) model (\d+)\)")
_BRANDS = re.compile(r"\b(?:xeon|platinum|gold|silver|bronze|max|core|ryzen [3579])\b")


class Microarchitecture(Document):
    """A microarchitecture: what all processor models that are built of it share."""

    name: Name
    architecture: str
    instruction_set: str
    """The highest level of instruction sets that all its processors have: ``x86-64-v3``."""
    year: int
    """Year in which its first processor could be bought."""
    vector_bits: int
    fma_units: int
    """Vector units that each start one fused multiply-add (or add and multiply) a cycle."""
    l1_bytes: Positive
    l2_bytes: Positive
    models: str
    """Regular expression of simplified model names of processors with this core."""
    family_models: tuple[tuple[int, int, int], ...] = ()
    """(family, first and last model) that an x86 processor with this core reports by ``cpuid``:
    Intel's Software Developer's Manual, volume 4, table 2-1, and AMD's Processor Programming
    References."""


class Processor(Document):
    """The data sheet of a processor model; all figures are of one socket."""

    name: Name
    model: str
    """As vendors write it: ``AMD EPYC 7742``."""
    aliases: tuple[str, ...] = ()
    core: Name
    cores: int = Field(ge=1)
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
    integer_score: Positive | None = None
    floating_point_score: Positive | None = None
    source: str
    """Where the figures are from, and which of them were not verified."""

    @property
    def instruction_set(self) -> str:
        level = cores()[self.core].instruction_set
        return "x86-64-v3" if level == "x86-64-v4" and self.vector_bits is not None else level

    @property
    def score(self) -> CoreScore | None:
        """Return the speed of one core on whole programs; None: nobody measured it alike."""
        if self.integer_score is None or self.floating_point_score is None:
            return None
        return CoreScore(
            integer=self.integer_score,
            floating_point=self.floating_point_score,
            source=_table().score_source,
        )


class ProcessorTable(Document):
    """The content of ``processors.json``."""

    schema_: str = Field(alias="schema")
    score_source: str
    """Where the scores of all models in the table are from."""
    cores: tuple[Microarchitecture, ...]
    processors: tuple[Processor, ...]

    @model_validator(mode="after")
    def _cores_known(self) -> ProcessorTable:
        known = {core.name for core in self.cores}
        for processor in self.processors:
            if processor.core not in known:
                raise ValueError(f"{processor.name}: there is no core {processor.core!r}")
        return self


@cache
def _table() -> ProcessorTable:
    return read_json(TABLE, ProcessorTable)


@cache
def processors() -> Mapping[str, Processor]:
    """Return all processor models of the catalogue by canonical name."""
    return {processor.name: processor for processor in _table().processors}


@cache
def cores() -> Mapping[str, Microarchitecture]:
    """Return all microarchitectures of the catalogue by name."""
    return {core.name: core for core in _table().cores}


def simplified_model(name: str, *, brands: bool = True) -> str:
    """Return a processor's name as it is compared: lower-case letters and digits of the model.

    Clock, number of cores and vendor are dropped, and without ``brands`` also words such as Xeon.
    """
    words = _NOISE.sub(" ", name.lower().replace("_", " "))
    words = _FIRST_VERSION.sub(r"\1", words)
    if not brands:
        words = _BRANDS.sub(" ", words.replace("-", " ") if "xeon-" in words else words)
    return re.sub(r"[^a-z0-9+]+", "", words)


@cache
def _by_name() -> Mapping[str, Processor]:
    return {
        simplified_model(name, brands=brands): processor
        for processor in processors().values()
        for name in (processor.name, processor.model, *processor.aliases)
        for brands in (True, False)
    }


def find_processor(name: str) -> Processor | None:
    """Return the processor model with this name, as ``/proc/cpuinfo`` or a person writes it; None:
    the catalogue has no such model."""
    named = (_by_name().get(simplified_model(name, brands=brands)) for brands in (True, False))
    return next((processor for processor in named if processor is not None), None)


def get_processor(name: str) -> Processor:
    """Return the processor model with this name. Raises UsageError that offers the three nearest
    names."""
    processor = find_processor(name)
    if processor is None:
        near = nearest_processors(name)
        raise UsageError(
            f"no processor is called {name!r}",
            hint=f"did you mean {' or '.join(near)}?" if near
            else "`berth site platform list --processors` shows them",
        )  # fmt: skip
    return processor


def nearest_processors(name: str) -> tuple[str, ...]:
    spellings = dict.fromkeys(simplified_model(name, brands=brands) for brands in (False, True))
    near = [
        key
        for spelling in spellings
        for key in difflib.get_close_matches(spelling, _by_name(), n=9, cutoff=0.5)
    ]
    return tuple(dict.fromkeys(_by_name()[each].name for each in near))[:3]


def core_named(name: str) -> Microarchitecture | None:
    """Return the microarchitecture of a processor, by its model in the catalogue, else by the
    pattern of its model name or by its family and model (``AMD EPYC (family 25 model 1)``); None:
    unknown."""
    if (processor := find_processor(name)) is not None:
        return cores()[processor.core]
    if (hidden := _FAMILY.search(name)) is not None:
        family, model = int(hidden[1]), int(hidden[2])
        return next(
            (
                core
                for core in cores().values()
                for its_family, first, last in core.family_models
                if family == its_family and first <= model <= last
            ),
            None,
        )
    simple = simplified_model(name).removeprefix("xeon")
    return next((core for core in cores().values() if re.match(core.models, simple)), None)


def may_be_same_processor(first: str, second: str) -> bool:
    """Return whether two names can mean one processor model.

    They can if they are equal but for the family, if the catalogue has one model with both names,
    or if one of them tells only the core that the other has (``Neoverse-N1``, ``AMD EPYC (family
    25 model 1)``).
    """
    if all(map(_FAMILY.search, (first, second))):
        return simplified_model(first) == simplified_model(second)
    plain = [simplified_model(_FAMILY.sub("", name)) for name in (first, second)]
    if plain[0] == plain[1]:
        return True
    models = find_processor(first), find_processor(second)
    if all(models):
        return models[0] is models[1]
    return core_named(first) is core_named(second) and any(map(tells_only_core, (first, second)))


def tells_only_core(name: str) -> bool:
    """Return whether a name tells the core of a processor, but neither its model nor its clock."""
    core = core_named(name)
    plain = core is not None and simplified_model(name) == simplified_model(core.name)
    return core is not None and (plain or bool(_FAMILY.search(name)))
