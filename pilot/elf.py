"""The little of an ELF file that says where a program can run: machine, libraries, sections."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

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
"""R_X86_64_IRELATIVE."""
SYMBOLS_MAX = 20_000
COUNT_MAX = 4096
"""Of sections, segments and dynamic entries: more is a damaged file."""


@dataclass(frozen=True, slots=True)
class Elf:
    """What an ELF file says of itself; ``machine`` in ``uname -m`` terms."""

    machine: str
    needed: tuple[str, ...]
    sections: tuple[str, ...]
    imports: tuple[str, ...] = ()
    """Names of other files that it uses."""
    resolves: bool = False
    """Functions of it are chosen when it is loaded (STT_GNU_IFUNC, R_X86_64_IRELATIVE)."""


def read(path: Path) -> Elf | None:
    """The file's facts, or None where it is not a readable ELF file."""
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415 - 0.1 s, only at the end of a pilot

    try:
        with path.open("rb") as stream:
            file = ELFFile(stream)
            if max(file.num_sections(), file.num_segments()) > COUNT_MAX:
                return None
            sections = (section.name for section in file.iter_sections())
            named = tuple(name for name in sections if name)
            return Elf(_machine(file), _needed(file), named, _imports(file), _resolves(file))
    except Exception:  # of a damaged file pyelftools raises whatever its parts do
        return None


def _machine(file: Any) -> str:
    said = file["e_machine"]
    machine = MACHINES.get(said, f"elf-{said}")
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
