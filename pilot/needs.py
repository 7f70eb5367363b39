"""Find the instruction sets that a program cannot run without.

Many programs and libraries detect the processor's features at run time and use, for example,
AVX-512 only if present. The needs of each file (executable or library) of a program are:

- a file of the operating system (``/usr/bin``, ``/usr/lib``): none, because distributions build
  these for the oldest supported processor;
- a file that never queries the processor's features (no ``cpuid`` and the like): every instruction
  set in its disassembled code, whether or not this run executed it;
- any other file: the instruction sets that it executed on an emulated x86-64-v2 processor, if that
  was tried, else all that it executed.

A file's architecture, libraries and sections are read with pyelftools.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from berth.pilot.collectors.x86 import classify
from berth.pilot.instruction_sets import canonical, expanded, needed
from berth.pilot.objdump import disassembled

MACHINES = {
    "EM_386": "i686",
    "EM_PPC64": "ppc64",
    "EM_S390": "s390x",
    "EM_ARM": "arm",
    "EM_X86_64": "x86_64",
    "EM_AARCH64": "aarch64",
    "EM_RISCV": "riscv64",
}
LITTLE_PPC = "ppc64le"
IRELATIVE = 37
"""Number of the relocation type R_X86_64_IRELATIVE."""
SYMBOLS_MAX = 20_000
COUNT_MAX = 4096
"""Largest number of sections, segments or dynamic entries; a file with more is taken as damaged."""


@dataclass(frozen=True, slots=True)
class Elf:
    """An ELF file, described by its architecture, shared libraries and sections.

    ``machine``: architecture as ``uname -m`` prints it; ``needed``: names of linked libraries.
    """

    machine: str
    needed: tuple[str, ...]
    sections: tuple[str, ...]
    imports: tuple[str, ...] = ()
    """Symbols that the file uses from other files."""
    resolves: bool = False
    """Whether functions are selected by the processor at load time (R_X86_64_IRELATIVE)."""


def read_elf(path: Path) -> Elf | None:
    """Return the properties of the file, or None if it is not a readable ELF file."""
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415 - 0.1 s, only at the end of a pilot

    try:
        with path.open("rb") as stream:
            file = ELFFile(stream)
            if max(file.num_sections(), file.num_segments()) > COUNT_MAX:
                return None
            sections = (section.name for section in file.iter_sections())
            named = tuple(name for name in sections if name)
            return Elf(_machine(file), _needed(file), named, _imports(file), _resolves(file))
    except Exception:  # for damaged files pyelftools raises many types
        return None


def _machine(file: Any) -> str:
    code = file["e_machine"]
    machine = MACHINES.get(code, f"elf-{code}")
    return LITTLE_PPC if machine == "ppc64" and file.little_endian else machine


def _needed(file: Any) -> tuple[str, ...]:
    dynamic = next(iter(file.iter_segments("PT_DYNAMIC")), None)
    tags = () if dynamic is None else islice(dynamic.iter_tags(), COUNT_MAX)
    return tuple(tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED")


def _imports(file: Any) -> tuple[str, ...]:
    table = file.get_section_by_name(".dynsym")
    symbols = () if table is None else islice(table.iter_symbols(), SYMBOLS_MAX)
    return tuple(symbol.name for symbol in symbols if symbol["st_shndx"] == "SHN_UNDEF")


def _resolves(file: Any) -> bool:
    if file["e_machine"] != "EM_X86_64":
        return False
    sections = (file.get_section_by_name(name) for name in (".rela.plt", ".rela.dyn", ".rela.iplt"))
    return any(
        relocation["r_info_type"] == IRELATIVE
        for section in sections
        if section is not None
        for relocation in islice(section.iter_relocations(), SYMBOLS_MAX)
    )


Sets = Mapping[str, frozenset[str]]
"""Instruction sets of the executed code, by path of the executable or library."""
SYSTEM = ("/bin", "/sbin", "/lib", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64")
EVERY_X86 = expanded(["x86-64-v2"])
MOST_BYTES = 8 << 20
"""Larger files are not disassembled, to save time; only what they executed counts."""
FEWEST = 3
"""Smallest number of instructions of a set that count: fewer may be data that the disassembler
took for code."""
ASKING = re.compile(r"__x86_get_cpu|__cpu_model|__cpu_indicator_init|^getauxval$|cpu_flags|cpuid")
_BEYOND = re.compile(r"v[a-z]|k(?:mov|or|and|xor|not|xnor|test|unpck|add|shift)|[mrsbaplt]")


@dataclass(frozen=True, slots=True)
class Code:
    """The instruction sets in the disassembled code of an executable or library."""

    sets: frozenset[str]
    asks: bool
    """Whether the code may query the processor's features and select code by them."""


@dataclass(frozen=True, slots=True)
class Executed:
    """Instruction sets that a program executed in emulated runs."""

    sets: Sets
    plain: Sets | None = None
    """Sets executed on an emulated x86-64-v2 processor; None: not tried, or the run failed."""
    stopped: bool = False
    """Whether the emulation stopped at an instruction that the emulator does not know."""


NOTHING = Executed({})


def is_system(path: str) -> bool:
    """Return whether the file belongs to the operating system."""
    return path.startswith(tuple(f"{folder}/" for folder in SYSTEM))


def may_choose(sets: Sets) -> bool:
    """Return whether a file may have selected executed instructions by the processor's features.

    Only instruction sets beyond x86-64-v2 and files outside the operating system count.
    """
    for path, names in sets.items():
        if path and not is_system(path) and beyond(names):
            code = read_code(path)
            if code is None or code.asks:
                return True
    return False


def beyond(names: Iterable[str]) -> frozenset[str]:
    """Return the instruction sets in ``names`` that x86-64-v2 does not include."""
    return frozenset(canonical(name) for name in names) - EVERY_X86


def needed_sets(files: Sequence[str], executed: Executed) -> tuple[str, ...]:
    """Return the instruction sets beyond x86-64-v2 that a program needs.

    ``files``: its executables; libraries and others are taken from ``executed``.
    """
    need: set[str] = set()
    programs = frozenset(files)
    for path in dict.fromkeys((*files, *executed.sets)):
        if not path or is_system(path):
            continue
        seen = beyond(executed.sets.get(path, ()))
        code = read_code(path) if seen or path in programs else None
        if code is not None and not code.asks and (path in programs or executed.plain is None):
            need |= seen | beyond(code.sets)
        elif executed.plain is not None:
            need |= beyond(executed.plain.get(path, ()))
        else:
            need |= seen
            if code is not None and executed.stopped:
                need |= beyond(code.sets)
    return needed(need)


_read: dict[tuple[str, int, int], Code | None] = {}


def read_code(path: str) -> Code | None:
    """Return the instruction sets in an executable's or library's disassembled code (cached).

    None if the file has no x86-64 code, is larger than ``MOST_BYTES``, or cannot be disassembled.
    """
    with suppress(OSError):
        state = Path(path).stat()
        key = (path, state.st_size, state.st_mtime_ns)
        if key not in _read:
            _read[key] = _disassembled(Path(path), state.st_size)
        return _read[key]
    return None


def _disassembled(path: Path, size: int) -> Code | None:
    facts = read_elf(path)
    if facts is None or facts.machine != "x86_64" or size > MOST_BYTES:
        return None
    lines = disassembled("-d", file=str(path))
    if lines is None:
        return None
    texts = Counter(text for _, text in lines)
    seen: Counter[str] = Counter()
    asks = facts.resolves or any(ASKING.search(name) for name in facts.imports)
    for text, times in texts.items():
        asks = asks or text in ("cpuid", "xgetbv")
        if _BEYOND.match(text) and (name := classify(text).extension) is not None:
            seen[name] += times
    return Code(frozenset(name for name, times in seen.items() if times >= FEWEST), asks)
