"""Find the instruction sets that a program cannot run without.

Many programs and libraries detect the processor's features at run time and use, for example,
AVX-512 only if present. The needs of each file (executable or library) of a program are:

- a file of the operating system (``/usr/bin``, ``/usr/lib``): none, because distributions build
  these for the oldest supported processor;
- a file that never queries the processor's features (no ``cpuid`` and the like): every instruction
  set in its disassembled code, whether or not this run executed it;
- any other file: none, as its code is chosen by the processor. What cannot be named is
  ``NOT_NAMED``: code of a processor without tables here, instructions that objdump does not know,
  and code beyond the oldest processors in a file that may or may not choose it.

A file's architecture, libraries and sections are read with pyelftools.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from berth.pilot.instruction_sets import NOT_NAMED, canonical, expanded, needed
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
IRELATIVE = {"EM_X86_64": 37, "EM_AARCH64": 1032, "EM_PPC64": 248}
"""Number of the relocation type IRELATIVE, by machine."""
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
    """Whether functions are selected by the processor at load time (IRELATIVE)."""
    text: tuple[int, int] = (0, 0)
    """First address of the section of code, and its number of bytes."""
    queries: bool = False
    """Whether the code has the bytes of a query of an x86-64 processor's features."""

    @property
    def asks(self) -> bool:
        """Return whether the code may be selected by the processor's features, as far as that is
        seen without disassembling it."""
        return self.resolves or self.queries or any(ASKING.search(name) for name in self.imports)


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
            code = file.get_section_by_name(".text")
            text = (code["sh_addr"], code["sh_size"]) if code is not None else (0, 0)
            machine = _machine(file)
            queries = machine == "x86_64" and code is not None and bool(CPUID.search(code.data()))
            return Elf(
                machine, _needed(file), named, _imports(file), _resolves(file), text, queries
            )
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
    sections = (file.get_section_by_name(name) for name in (".rela.plt", ".rela.dyn", ".rela.iplt"))
    return any(
        relocation["r_info_type"] == IRELATIVE.get(file["e_machine"])
        for section in sections
        if section is not None
        for relocation in islice(section.iter_relocations(), SYMBOLS_MAX)
    )


SYSTEM = ("/bin", "/sbin", "/lib", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64")
EVERY = expanded(["x86-64-v2", "armv8", "power8"])
MOST_BYTES, MOST_BYTES_OF_LIBRARY = 2 << 20, 1 << 16
"""Of larger code, ``WINDOWS`` parts are disassembled that are together as large, to save time."""
WINDOWS, EDGE_BYTES = 8, 64
LOOKING_S = 8.0
"""Processor time for disassembling the libraries of a program."""
FEWEST = 3
"""Smallest number of instructions beyond the oldest processors that count: fewer may be data that
the disassembler took for code."""
BOTH = 0.1
"""Least number of instructions of SSE, as a share of the newer ones, in code with both."""
NEVER_DATA = re.compile(
    r"sse4a|rd(?:rand|seed|pid)|clzero|sha_ni|aes|pclmulqdq|adx|gfni|movdir\w+|serialize|waitpkg"
    r"|fsgsbase|clwb|clflushopt|rtm|pku|mwaitx|enqcmd"
)
"""Instruction sets whose long opcodes hardly occur in data, so that one instruction counts."""
ASKING = re.compile(r"__x86_get_cpu|__cpu_model|__cpu_indicator_init|^getauxval$|cpu_flags|cpuid")
CPUID = re.compile(
    rb"(?:\xb8.{3}[\x00\x80]|\x31[\xc0\xc9]|\x33[\xc0\xc9]|\x89[\xf8\xf0\xd0])\x0f\xa2", re.DOTALL
)
"""``cpuid`` after an instruction that sets which leaf it tells: ``mov`` of a number or a register,
``xor``. Other bytes are so by chance once in tens of megabytes of code."""
ASKING_FOR_ATOMICS = "__getauxval"
"""What gcc's atomics for Arm import, which choose by the processor whether they use LSE."""
QUERIES = re.compile(r"cpuid|xgetbv|mrs\t.*\bid_aa64\w+")
"""Instructions that query the processor's features."""


@dataclass(frozen=True, slots=True)
class CodeSections:
    """The instruction sets in the disassembled code of an executable or library."""

    sets: frozenset[str]
    asks: bool
    """Whether the code may query the processor's features and select code by them."""
    is_part: bool = False
    """Whether not all code was read, and it is not known what code is selected so."""
    has_loader: bool = True
    """Whether the dynamic linker loads it; if not, an executable has its C library in it, which
    queries for itself."""


def is_system(path: str) -> bool:
    """Return whether the file belongs to the operating system."""
    return path.startswith(tuple(f"{folder}/" for folder in SYSTEM))


def beyond(names: Iterable[str]) -> frozenset[str]:
    """Return the instruction sets in ``names`` beyond x86-64-v2, Armv8.0 and POWER8."""
    return frozenset(canonical(name) for name in names) - EVERY


def _used_s() -> float:
    """Return the processor time of this process and of the children that it waited for."""
    return sum(os.times()[:4])


def needed_sets(files: Sequence[str], libraries: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the instruction sets beyond x86-64-v2 (Armv8.0, POWER8) that a program needs.

    ``files``: its executables; ``libraries``: those that it had loaded.
    """
    need: set[str] = set()
    programs = frozenset(files)
    began_s = _used_s()
    for path in dict.fromkeys((*files, *libraries)):
        if not path or is_system(path):
            continue
        if path not in programs and _used_s() > began_s + LOOKING_S:
            need.add(NOT_NAMED)
        else:
            need |= _of_file(path, is_library=path not in programs)
    return needed(need)


def _of_file(path: str, *, is_library: bool) -> frozenset[str]:
    """Return the instruction sets that one file of a program needs."""
    facts = read_elf(Path(path))
    if facts is None:  # a script needs nothing itself
        return frozenset()
    if facts.machine == "x86_64" and facts.asks and (is_library or ".interp" in facts.sections):
        return frozenset()  # its code is chosen: it need not be disassembled
    code = read_code(path, MOST_BYTES_OF_LIBRARY if is_library else MOST_BYTES)
    if code is None:
        return frozenset({NOT_NAMED})
    sets = beyond(code.sets)
    if not code.asks:
        return sets
    may_be_chosen = not code.is_part and (is_library or code.has_loader)
    return frozenset() if may_be_chosen or not sets else frozenset({NOT_NAMED})


_read: dict[tuple[str, int, int], CodeSections | None] = {}


def read_code(path: str, most_bytes: int = MOST_BYTES) -> CodeSections | None:
    """Return the instruction sets in an executable's or library's disassembled code (cached).

    None if the file has no code of x86-64, Arm or POWER, or cannot be disassembled.
    """
    with suppress(OSError):
        state = Path(path).stat()
        key = (path, state.st_size, state.st_mtime_ns)
        if key not in _read:
            _read[key] = _disassembled(Path(path), most_bytes)
        return _read[key]
    return None


def _named_by(machine: str) -> Callable[[str], str | None] | None:
    """Return the function that names the instruction set of a disassembled instruction."""
    if machine == "x86_64":
        from berth.pilot.collectors.x86 import extension_of  # noqa: PLC0415 - its tables are slow

        return extension_of
    from berth.pilot.collectors.arm_and_power import of_arm, of_power  # noqa: PLC0415

    return {"aarch64": of_arm, "ppc64le": of_power}.get(machine)


def _disassembled(path: Path, most_bytes: int) -> CodeSections | None:
    facts = read_elf(path)
    named_by = None if facts is None else _named_by(facts.machine)
    if facts is None or named_by is None:
        return None
    is_whole = facts.text[1] <= most_bytes
    if is_whole or facts.machine != "x86_64":
        texts: Counter[str] = Counter()
        for options in _parts(facts.text, most_bytes):
            lines = disassembled("-d", *options, file=str(path), machine=facts.machine)
            if lines is None:
                return None
            texts.update(text for _, text in lines)
    else:
        texts = _of_parts(path, most_bytes // WINDOWS)
    if not texts:
        return None
    seen: Counter[str] = Counter()
    older = 0
    for text, times in texts.items():
        if (name := named_by(text)) is not None:
            seen[name] += times
        elif "%xmm" in text:
            older += times
    if ASKING_FOR_ATOMICS in facts.imports:
        del seen["lse"]
    newer = sum(seen[name] for name in beyond(seen))
    asks = facts.asks or any(QUERIES.match(text) for text in texts)
    # Compilers for AVX write no SSE: where both are, one is chosen.
    asks = asks or (not is_whole and (facts.machine != "x86_64" or older > BOTH * newer))
    is_part = not is_whole and facts.machine != "x86_64"
    sets = frozenset(name for name in seen if newer >= FEWEST or NEVER_DATA.fullmatch(name))
    return CodeSections(sets, asks, is_part, ".interp" in facts.sections)


def _of_parts(path: Path, part_bytes: int) -> Counter[str]:
    """Return the instructions in ``WINDOWS`` parts of a file's x86-64 code; empty if unknown.

    objdump gets the bytes alone: reading the symbols of a large library takes it seconds.
    """
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415 - as in read_elf

    with path.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".text")
        code = b"" if section is None else section.data()
    step = len(code) // WINDOWS
    parts = b"".join(code[n * step : n * step + part_bytes] for n in range(WINDOWS))
    with tempfile.NamedTemporaryFile(prefix="berth-code-") as file:
        file.write(parts)
        file.flush()
        raw = ("-D", "-b", "binary", "-m", "i386:x86-64")
        lines = disassembled(*raw, file=file.name) or ()
        # At the edges of a part an instruction may be cut.
        edge = min(EDGE_BYTES, part_bytes // WINDOWS)
        inside = range(edge, part_bytes - edge)
        return Counter(text for address, text in lines if address % part_bytes in inside)


def _parts(text: tuple[int, int], most_bytes: int) -> Iterator[tuple[str, ...]]:
    """Yield objdump's options for all code, or for ``WINDOWS`` parts of the section of code."""
    first, size = text
    if size <= most_bytes:
        yield ()
        return
    for start in range(first, first + size, size // WINDOWS + 1):
        stop = start + most_bytes // WINDOWS
        yield f"--start-address={start:#x}", f"--stop-address={stop:#x}"
