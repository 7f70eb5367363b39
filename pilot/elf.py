"""The little of an ELF file that says where a program can run: machine, libraries, sections.

Layout: System V ABI, "Object Files". A file that is no ELF, or a broken one, gives None.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MACHINES = {
    3: "i686",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
}
LITTLE_PPC = "ppc64le"
PT_DYNAMIC = 2
DT_NEEDED, DT_STRTAB = 1, 5
PT_LOAD = 1
COUNT_MAX = 4096
TABLE_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Elf:
    """What an ELF file says of itself; ``machine`` in ``uname -m`` terms."""

    machine: str
    needed: tuple[str, ...]
    sections: tuple[str, ...]


def read(path: Path) -> Elf | None:
    """The file's facts, or None where it is not a readable ELF file."""
    try:
        with path.open("rb") as stream:
            head = stream.read(64)
            if len(head) < 52 or head[:4] != b"\x7fELF" or head[4] not in (1, 2):
                return None
            return _Reader(stream, head).read()
    except (OSError, struct.error, ValueError):
        return None


class _Reader:
    """Reads at offsets of the open file with the file's own word size and byte order."""

    def __init__(self, stream: BinaryIO, head: bytes) -> None:
        self._stream = stream
        self._head = head
        self._wide = head[4] == 2
        self._order = "<" if head[5] == 1 else ">"

    def read(self) -> Elf:
        order = self._order
        layout = "HHIQQQIHHHHHH" if self._wide else "HHIIIIIHHHHHH"
        fields = struct.unpack_from(order + layout, self._head, 16)
        machine = MACHINES.get(fields[1], f"elf-{fields[1]}")
        if machine == "ppc64" and order == "<":
            machine = LITTLE_PPC
        segments_at, sections_at = fields[4], fields[5]
        segment_size, segments, section_size, sections, names_index = fields[8:13]
        programs = self._programs(segments_at, segment_size, segments)
        return Elf(
            machine,
            self._needed(programs),
            self._section_names(sections_at, section_size, sections, names_index),
        )

    def _at(self, offset: int, length: int) -> bytes:
        if not 0 <= length <= TABLE_MAX:
            raise ValueError("a table of absurd size")
        self._stream.seek(offset)
        return self._stream.read(length)

    def _programs(self, at: int, size: int, count: int) -> list[tuple[int, int, int, int]]:
        """(type, file offset, address, file size) of each program header."""
        table = self._at(at, size * min(count, COUNT_MAX))
        result = []
        for start in range(0, len(table) - size + 1, max(1, size)):
            if self._wide:
                kind, _, offset, address, _, length = struct.unpack_from(
                    self._order + "IIQQQQ", table, start
                )
            else:
                kind, offset, address, _, length = struct.unpack_from(
                    self._order + "IIIII", table, start
                )
            result.append((kind, offset, address, length))
        return result

    def _needed(self, programs: list[tuple[int, int, int, int]]) -> tuple[str, ...]:
        dynamic = next((p for p in programs if p[0] == PT_DYNAMIC), None)
        if dynamic is None:
            return ()
        entry = struct.Struct(self._order + ("qQ" if self._wide else "iI"))
        table = self._at(dynamic[1], min(dynamic[3], TABLE_MAX))
        table = table[: len(table) // entry.size * entry.size]
        tags = list(entry.iter_unpack(table))
        strings = next((value for tag, value in tags if tag == DT_STRTAB), None)
        if strings is None:
            return ()
        base = self._file_offset(programs, strings)
        if base is None:
            return ()
        offsets = [value for tag, value in tags if tag == DT_NEEDED][:COUNT_MAX]
        return tuple(_text(self._at(base + offset, 256), 0) for offset in offsets)

    @staticmethod
    def _file_offset(programs: list[tuple[int, int, int, int]], address: int) -> int | None:
        for kind, offset, start, length in programs:
            if kind == PT_LOAD and start <= address < start + length:
                return offset + address - start
        return None

    def _section_names(self, at: int, size: int, count: int, names_index: int) -> tuple[str, ...]:
        if at == 0 or count == 0 or names_index >= count:
            return ()
        table = self._at(at, size * min(count, COUNT_MAX))
        layout = self._order + ("IIQQQQ" if self._wide else "IIIIII")
        rows = [
            struct.unpack_from(layout, table, start)
            for start in range(0, len(table) - struct.calcsize(layout) + 1, max(1, size))
        ]
        if names_index >= len(rows):
            return ()
        names = self._at(rows[names_index][4], min(rows[names_index][5], TABLE_MAX))
        return tuple(name for row in rows if (name := _text(names, row[0])))


def _text(table: bytes, start: int) -> str:
    end = table.find(b"\0", start)
    return table[start : end if end >= 0 else len(table)].decode("utf-8", "replace")
