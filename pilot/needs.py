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
"""

from __future__ import annotations

import os
import re
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from berth.pilot.instruction_sets import NOT_NAMED, canonical, expanded, needed
from berth.pilot.objdump import disassembled

MACHINES = {
    3: "i686",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
}
"""Architecture as ``uname -m`` prints it, by its number in the ELF header."""
LITTLE_PPC = "ppc64le"
IRELATIVE = {"x86_64": 37, "aarch64": 1032, "ppc64": 248, "ppc64le": 248}
"""Number of the relocation type IRELATIVE, by machine."""
DYNAMIC, NO_BITS, DYNAMIC_SYMBOLS, DT_NEEDED = 6, 8, 11, 1
"""Types of sections, and of an entry of the dynamic section."""
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
    try:
        with path.open("rb") as stream:
            file = _ElfFile(stream)
            code = file.sections.get(".text")
            is_asked = file.machine == "x86_64" and code is not None
            return Elf(
                file.machine,
                file.needed(),
                tuple(filter(None, file.sections)),
                file.imports(),
                file.resolves(),
                (code.address, code.size) if code is not None else (0, 0),
                is_asked and CPUID.search(file.data(".text")) is not None,
            )
    except (OSError, ValueError, OverflowError, struct.error):  # of damaged files
        return None


class _Section(NamedTuple):
    """A section header, as far as it is used; offsets and sizes in bytes."""

    name: int
    kind: int
    address: int
    offset: int
    size: int
    link: int


class _ElfFile:
    """The headers of an ELF file (System V ABI, chapters 4 and 5). Raises ValueError and
    struct.error for other files."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        start = stream.read(16)
        if len(start) < 16 or start[:4] != b"\x7fELF":
            raise ValueError("not an ELF file")
        self._is_64, self._order = start[4] == 2, "<" if start[5] == 1 else ">"
        header = struct.Struct(self._layout("HHIWWWIHHHHHH"))
        _, code, _, _, _, first, _, _, _, segments, _, count, names = header.unpack(
            stream.read(header.size)
        )
        if max(count, segments) > COUNT_MAX or (first and not count):
            raise ValueError("too many sections or segments")
        machine = MACHINES.get(code, f"elf-{code}")
        self.machine = LITTLE_PPC if machine == "ppc64" and start[5] == 1 else machine
        self._all = [
            _Section(name, kind, address, offset, size, link)
            for name, kind, _, address, offset, size, link, _, _, _ in self._records(
                "IIWWWWIIWW", first, count
            )
        ]
        texts = self._content(self._all[names]) if self._all else b""
        self.sections = {_text(texts, each.name): each for each in self._all}

    def _layout(self, fields: str) -> str:
        return self._order + fields.replace("W", "Q" if self._is_64 else "I")

    def _records(self, fields: str, offset: int, count: int) -> Iterator[tuple[int, ...]]:
        layout = struct.Struct(self._layout(fields))
        self._stream.seek(offset)
        return layout.iter_unpack(self._stream.read(count * layout.size))

    def _content(self, section: _Section) -> bytes:
        self._stream.seek(section.offset)
        return self._stream.read(section.size)

    def data(self, name: str) -> bytes:
        """Return the content of a section; empty if there is none."""
        section = self.sections.get(name)
        return b"" if section is None or section.kind == NO_BITS else self._content(section)

    def _table(self, kind: int, fields: str, most: int) -> tuple[list[tuple[int, ...]], bytes]:
        """Return the entries of the section of that kind, and the texts that they refer to."""
        section = next((each for each in self._all if each.kind == kind), None)
        if section is None:
            return [], b""
        count = section.size // struct.calcsize(self._layout(fields))
        texts = self._content(self._all[section.link]) if section.link < len(self._all) else b""
        return list(self._records(fields, section.offset, min(count, most))), texts

    def needed(self) -> tuple[str, ...]:
        """Return the names of linked libraries."""
        entries, texts = self._table(DYNAMIC, "WW", COUNT_MAX)
        return tuple(_text(texts, value) for tag, value in entries if tag == DT_NEEDED)

    def imports(self) -> tuple[str, ...]:
        """Return the symbols that are defined in other files."""
        fields, of = ("IBBHWW", 3) if self._is_64 else ("IWWBBH", 5)
        entries, texts = self._table(DYNAMIC_SYMBOLS, fields, SYMBOLS_MAX)
        return tuple(_text(texts, entry[0]) for entry in entries if not entry[of])

    def resolves(self) -> bool:
        """Return whether a function is selected when the file is loaded."""
        wanted = IRELATIVE.get(self.machine)
        for name in (".rela.plt", ".rela.dyn", ".rela.iplt"):
            section = self.sections.get(name)
            if wanted is not None and section is not None:
                count = min(SYMBOLS_MAX, section.size // struct.calcsize(self._layout("WWW")))
                entries = self._records("WWW", section.offset, count)
                if any(info & 0xFFFFFFFF == wanted for _, info, _ in entries):
                    return True
        return False


def _text(texts: bytes, start: int) -> str:
    """Return the text that begins at a place of a table of texts."""
    return texts[start : texts.find(b"\0", start)].decode("utf-8", "replace")


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
    with path.open("rb") as stream:
        code = _ElfFile(stream).data(".text")
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
