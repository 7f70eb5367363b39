"""Find a processor and its core by the names that CPUs go by.

``/proc/cpuinfo``, clouds, hypervisors, TOP500 and people write names differently. A name is known

- as that of a *model* in the catalogue (``find_processor``);
- else by the core that it tells: x86's ``(family 25 model 1)``, Arm's ``0x41 part 0xd4f``, a
  core's own name, or the pattern of its product line. ``known_processor`` then describes a typical
  model of that line.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from statistics import median_low

from berth.pilot.errors import UsageError
from berth.predictor.hardware.catalogue import nearest
from berth.predictor.hardware.processor import (
    Microarchitecture,
    Processor,
    ProductLine,
    cores,
    processor_table,
    processors,
)

_NOISE = re.compile(
    r"\((?:r|tm)\)|@.*|\b\d{1,3}c\b(?=\s*[\d.]+\s*ghz)|\b[\d.]+\s*ghz\b"
    r"|\b(?:\d+|dual|quad|six|eight|twelve)-cores?\b|\b\d+th gen(?= +(?:intel|core))"
    r"|\b(?:amd|intel|aws|ibm|amazon|cpu|processor|genuine)\b|\bw(?:ith|/) .*"
)
_FIRST_VERSION = re.compile(r"\b(e[357]-\d{4}l?) 0\b")
"""Linux calls the first version of an Intel E5 ``E5-2670 0``, its second ``E5-2670 v2``."""
_FAMILY = re.compile(r"\(family (\d+) model (\d+)\)")
_PART = re.compile(r"^(\S+) part (0x[0-9a-f]+)$", re.IGNORECASE)
_COUNT = re.compile(r"\b(\d+)(?:-cores?\b|c\b(?=\s*[\d.]+\s*ghz))", re.IGNORECASE)
_BRANDS = re.compile(r"\b(?:xeon|platinum|gold|silver|bronze|max(?= +9\d{3})|core|ryzen [3579])\b")
_IMPLEMENTERS = {
    "arm": "0x41", "broadcom": "0x42", "cavium": "0x43", "fujitsu": "0x46", "hisilicon": "0x48",
    "nvidia": "0x4e", "apm": "0x50", "qualcomm": "0x51", "apple": "0x61", "microsoft": "0x6d",
    "phytium": "0x70", "ampere": "0xc0",
}  # fmt: skip
"""Codes of Arm's implementers by the names that archspec gives them."""
_BESIDE = re.compile(r" \+ ")
"""Between the names of the kinds of cores of one processor."""


def simplified_model(name: str, *, brands: bool = True) -> str:
    """Return a processor's name as it is compared: lower-case letters and digits of the model.

    Clock, number of cores and vendor are dropped, and without ``brands`` also words such as Xeon.
    """
    words = _NOISE.sub(" ", _FAMILY.sub("", name.lower()).replace("_", " "))
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


@cache
def _cores_by_name() -> Mapping[str, Microarchitecture]:
    return {simplified_model(core.name): core for core in cores().values()}


@lru_cache(maxsize=1024)
def find_processor(name: str) -> Processor | None:
    """Return the processor model with this name, as ``/proc/cpuinfo`` or a person writes it; None:
    the catalogue has no such model."""
    if _FAMILY.search(name):
        return None
    named = (_by_name().get(simplified_model(name, brands=brands)) for brands in (True, False))
    return next((processor for processor in named if processor is not None), None)


@lru_cache(maxsize=1024)
def known_processor(name: str) -> Processor | None:
    """Return the processor model with this name or, where the catalogue has none, a typical one of
    its line or core, called by this name; None: the name tells nothing."""
    return find_processor(name) or _typical(name)


def _typical(name: str) -> Processor | None:
    core = core_named(name)
    if core is None:
        return None
    line = _line_of(name) or _line_of(core.name)
    clock: float | None = None
    if line is not None and _core_of(line) is core:
        like, clock = processors()[line.like], line.clock_hz
    else:
        like = _usual_model(core, simplified_model(name))
    count = _COUNT.search(name)
    words = re.sub(r"[^A-Za-z0-9._+-]+", "-", re.sub(r"\(\w+\)|@.*", "", name)).strip("-+.")
    own = {
        "name": words.lower()[:60] or core.name,
        "model": name,
        "aliases": (),
        "core": core.name,
        "boost_hz": clock or like.boost_hz,
        "cores": int(count[1]) if count and int(count[1]) > 0 else like.cores,
        "source": f"not listed: as {like.name}, a typical model with its core; {like.source}"[:500],
    }
    return Processor.model_validate({**like.model_dump(), **own})


def _usual_model(core: Microarchitecture, brand: str) -> Processor:
    """Return a model of a core that no name tells more of: the one of the median clock, of those
    with this brand (``xeon``), if there are any."""
    models = [p for p in processors().values() if p.core == core.name]
    models = [p for p in models if simplified_model(p.model).startswith(brand)] or models
    if not models:
        line = next(line for line in processor_table().lines if line.core == core.name)
        return processors()[line.like]
    usual = median_low(p.boost_hz for p in models)
    return next(p for p in models if p.boost_hz == usual)


@cache
def _line_of(name: str) -> ProductLine | None:
    simple = simplified_model(name)
    return next((line for line in processor_table().lines if re.match(line.names, simple)), None)


def _core_of(line: ProductLine) -> Microarchitecture:
    return cores()[line.core or processors()[line.like].core]


@cache
def core_named(name: str) -> Microarchitecture | None:
    """Return the microarchitecture of a processor, by its model in the catalogue, its family and
    model (``AMD EPYC (family 25 model 1)``), its Arm part, the core's own name or the pattern of
    its product line; None: unknown.

    A processor with several kinds of cores (``Cortex-A55 + Cortex-A76``) has the fastest of them.
    """
    if _BESIDE.search(name):
        kinds = [core for part in _BESIDE.split(name) if (core := core_named(part)) is not None]
        return max(kinds, key=lambda core: core.bytes_per_s, default=None)
    if (processor := find_processor(name)) is not None:
        return cores()[processor.core]
    if (hidden := _FAMILY.search(name)) is not None:
        family, model = int(hidden[1]), int(hidden[2])
        for core in cores().values():
            if any(family == f and a <= model <= z for f, a, z in core.family_models):
                return core
    if (part := _PART.match(name.strip())) is not None:
        code = part[1].lower()
        key = (_IMPLEMENTERS.get(code, code), part[2].lower())
        return next((core for core in cores().values() if key in core.arm_parts), None)
    if (own := _cores_by_name().get(simplified_model(name))) is not None:
        return own
    line = _line_of(name)
    return None if line is None else _core_of(line)


def get_processor(name: str) -> Processor:
    """Return the processor of ``known_processor``. Raises UsageError that offers the three nearest
    names, of accelerators too."""
    processor = known_processor(name)
    if processor is None:
        near = " or ".join(nearest(name) or nearest_processors(name))
        hint = f"did you mean {near}?" if near else "`berth site platform list` shows all"
        raise UsageError(f"no CPU or accelerator is called {name!r}", hint=hint)
    return processor


def nearest_processors(name: str) -> tuple[str, ...]:
    spellings = dict.fromkeys(simplified_model(name, brands=brands) for brands in (False, True))
    near = [
        key
        for spelling in spellings
        for key in difflib.get_close_matches(spelling, _by_name(), n=9, cutoff=0.6)
    ]
    return tuple(dict.fromkeys(_by_name()[each].name for each in near))[:3]


def may_be_same_processor(first: str, second: str) -> bool:
    """Return whether two names can mean one processor model.

    They can if they are equal but for the family, if the catalogue has one model with both names,
    or if one of them tells only the core that the other has (``Neoverse-N1``, ``AMD EPYC (family
    25 model 1)``).
    """
    families = [_FAMILY.search(name) for name in (first, second)]
    if all(families):
        same = simplified_model(first) == simplified_model(second)
        return same and all(f and g and f[0] == g[0] for f, g in [families])
    if simplified_model(first) == simplified_model(second):
        return True
    models = find_processor(first), find_processor(second)
    if all(models):
        return models[0] is models[1]
    core = core_named(first)
    either = any(map(tells_only_core, (first, second)))
    return either and core is core_named(second)


def tells_only_core(name: str) -> bool:
    """Return whether a name tells the core of a processor, but neither its model nor its clock."""
    core = core_named(name)
    plain = core is not None and simplified_model(name) == simplified_model(core.name)
    hidden = _FAMILY.search(name) or _PART.match(name.strip())
    return core is not None and (plain or bool(hidden))
