"""The name of a processor, from the lines of ``/proc/cpuinfo`` of any architecture."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_NAMES = ("model name", "uarch", "cpu", "cpu model")
"""Keys whose value names the processor: x86 and LoongArch, RISC-V, POWER and SPARC, MIPS."""
_WITH_AMX = ("143", "173", "174", "207")
"""Models of Intel's family 6 that have AMX: a hypervisor that shows AMX and another model hides
which it is."""
_MODEL_NUMBER = re.compile(r"\d{3}(?!xx)")


def processor_name(cpu_info: Iterable[str]) -> str:
    """Return the processor's name; empty: the lines tell none.

    Arm: the name of each kind of core (``Neoverse-V2``). An x86 name without a model number, as
    hypervisors print it, gets the family and model (``AMD EPYC (family 25 model 1)``), or AMX where
    that model has none. s390x: the type of the machine.
    """
    lines = (line.partition(":") for line in cpu_info)
    pairs = [(key.strip().lower(), value.strip()) for key, _, value in lines]
    if arm := list(dict.fromkeys(_arm_cores(pairs))):
        return " + ".join(arm)
    first = dict(reversed(pairs))
    name = " ".join(next((first[key] for key in _NAMES if first.get(key)), "").split())
    if "cpu family" in first and not _MODEL_NUMBER.search(name.partition("@")[0]):
        model = first.get("model", "unknown")
        if "amx_tile" in first.get("flags", "").split() and model not in _WITH_AMX:
            return f"{name} (amx_tile)"
        return f"{name} (family {first['cpu family']} model {model})"
    if machine := re.search(r"machine = (\w+)", " ".join(first.values())):
        return f"{first['vendor_id']} machine {machine[1]}"
    return re.sub(r"( \((raw|architected)\))?, altivec supported$", "", name)


def _arm_cores(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the name of each processor's core, by its implementer and part number."""
    implementer = ""
    for key, value in pairs:
        if key == "cpu implementer":
            implementer = value
        elif key == "cpu part":
            yield _arm_core(implementer, value)


def _arm_core(implementer: str, part: str) -> str:
    """Return a core's name as archspec has it: ``neoverse_v2`` as ``Neoverse-V2``."""
    from archspec.cpu import TARGETS  # noqa: PLC0415 - only Arm pays for its import
    from archspec.cpu.schema import TARGETS_JSON  # noqa: PLC0415

    vendor = TARGETS_JSON["conversions"]["arm_vendors"].get(implementer, implementer)
    for target in TARGETS.values():
        if (target.vendor, target.cpu_part) == (vendor, part):
            words = target.name.split("_")
            return "-".join(w.upper() if w[1:2].isdigit() else w.capitalize() for w in words)
    return f"{vendor} part {part}"
