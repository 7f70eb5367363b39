"""Read ``cachegrind.out`` and ``callgrind.out`` files: one region, the whole program, emulated.

Cache misses depend on the size of the emulated
cache, which the file's ``desc:`` lines state. Misses of the catalogue's cache sizes (32 KiB first
level; 1 or 32 MiB last level) become counters; others are listed with their size.
"""

from __future__ import annotations

import re
import shlex

from berth.pilot.importers.reading import (
    PROFILE,
    ImportedFile,
    ImportedRun,
    Metric,
    Region,
    fault,
    whole_runs,
)
from berth.pilot.importers.recogniser import FileKind, FileReader

DESCRIPTION = re.compile(r"desc: (I1|D1|LL) cache:\s+(\d{1,12}) B, (\d{1,4}) B, (\d{1,4})-way")
_OF_TOTALS = re.compile(r"^(?:events|summary|totals):.*$", re.MULTILINE)
HINT = (
    "write it with: valgrind --tool=cachegrind --cache-sim=yes --branch-sim=yes "
    "--I1=32768,8,64 --D1=32768,8,64 --LL=33554432,16,64 ./app"
)
MIB = 2**20
FIRST_LEVEL = 32 * 2**10


def read(source: ImportedFile) -> ImportedRun:
    """Return the totals of a valgrind output file as one Region.

    Raises DocumentError for a file without totals (incomplete, or of another tool).
    """
    text = source.text
    totals = parse(text)
    if not totals.get("Ir"):
        raise fault(source.path, None, "holds no totals of valgrind", HINT)
    sizes: dict[str, int] = {}
    creator, command = "", ""
    for line in text.partition("\nfn=")[0].splitlines():
        match = DESCRIPTION.match(line)
        if match:
            sizes[match.group(1)] = int(match.group(2))
        elif line.startswith("creator:"):
            creator = line.partition(":")[2].strip()
        elif line.startswith("cmd:"):
            command = line.partition(":")[2].strip()
    metrics = {_name(event, sizes): Metric(float(count)) for event, count in totals.items()}
    region = Region((), metrics, {}, None, "valgrind's times are not the program's")
    tool, _, version = creator.partition("-")
    return ImportedRun(
        tool=tool or "cachegrind",
        sources=("cachegrind",),
        regions=(region,),
        version=version,
        command=_words(command),
    )


def _name(event: str, sizes: dict[str, int]) -> str:
    """Return an event's name, for cache misses with the cache size if it is not the catalogue's."""
    if event.startswith("DL"):
        return f"{event} with LL = {_shown(sizes.get('LL'))}"
    for level in ("D1", "I1"):
        if event.startswith(level) and sizes.get(level) != FIRST_LEVEL:
            return f"{event} with {level} = {_shown(sizes.get(level))}"
    return event


def _shown(size: int | None) -> str:
    if size is None:
        return "unknown size"
    return f"{size // MIB} MiB" if size % MIB == 0 else f"{size / 1024:g} KiB"


def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))[:10_000]
    except ValueError:
        return tuple(command.split())[:10_000]


def parse(text: str) -> dict[str, int]:
    """Return the totals by event in a cachegrind or callgrind file; empty if it has no totals."""
    names: list[str] = []
    for match in _OF_TOTALS.finditer(text):
        line = match[0]
        if line.startswith("events:"):
            names = line.split()[1:]
        elif names:
            values = [word.replace(",", "") for word in line.split()[1:]]
            if len(values) == len(names) and all(re.fullmatch(r"[0-9]{1,18}", v) for v in values):
                return {name: int(value) for name, value in zip(names, values, strict=True)}
    return {}


READERS = (
    FileReader("valgrind", PROFILE, (
        FileKind("valgrind's cachegrind.out or callgrind.out", "valgrind", line="events: Ir"),
    ), whole_runs(read)),
)  # fmt: skip
