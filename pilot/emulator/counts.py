"""Reads what the counting tool writes: totals, and executions and code of each segment.

    l1_load 3546 12 ...
    l1_fetch 88 ...
    conditional 9102
    ...
    object /usr/bin/app
    COUNT ADDRESS LOADS STORES LOAD_BYTES STORE_BYTES REGION LENGTHS CODE
    end

Misses are by the set of the first-level cache, of those sets that were simulated.
A segment is a run of instructions without an exit between them. Loads, stores and bytes are of
one execution; REGION is 1 where a parallel region begins; LENGTHS is one hexadecimal digit an
instruction, CODE their bytes; ``-`` where the segment holds accesses but no instruction's start.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

DATA_MISSES = frozenset(
    f"{level}_{kind}" for level in ("l1", "l2", "llc") for kind in ("load", "store")
)
FETCH_MISSES = "l1_fetch"
MISSES = DATA_MISSES | {FETCH_MISSES}
TOTALS = frozenset({"conditional", "taken", "conditional_missed", "indirect", "indirect_missed"})
SETS = 64
"""Of the first-level cache."""
SET_DOUBT = 2.6
"""Some sets are hot, and a quarter of them tells too little of that: errors of xz, sqlite
and LAMMPS exceed by so much what the spread over these sets says (17 of 18 are then covered)."""
NAMED = re.compile(r"(\w+) (\d{1,19})", re.ASCII)
BY_SET = re.compile(r"(\w+)((?: \d{1,19}){1,64})", re.ASCII)
SEGMENT = re.compile(
    r"(\d{1,19}) ([0-9a-f]{1,16}) (\d{1,9}) (\d{1,9}) (\d{1,9}) (\d{1,9}) ([01]) ([0-9a-f]+|-) "
    r"((?:[0-9a-f][0-9a-f])+|-)",
    re.ASCII,
)


@dataclass(slots=True)
class Counts:
    """Of all processes and parts that were read."""

    totals: dict[str, int] = field(default_factory=dict)
    misses: dict[str, list[int]] = field(default_factory=dict)
    """By each simulated set of the first-level cache."""
    executed: dict[str, dict[int, int]] = field(default_factory=dict)
    """Object file ("": code made at run time) -> address -> times."""
    code: dict[str, dict[int, bytes]] = field(default_factory=dict)
    """The same -> the instruction's bytes."""
    load_bytes: int = 0
    store_bytes: int = 0
    loads: int = 0
    """Reads as valgrind makes them: it splits some vector operands."""
    stores: int = 0
    regions: int = 0
    cut: int = 0
    """Parts without their end."""

    def missed(self, name: str) -> tuple[float, float]:
        """Misses of all sets, and the standard error where only a part was simulated."""
        found = self.misses.get(name, [0] * SETS)
        many = len(found)
        mean = sum(found) / many
        if many == SETS or many < 2:
            return SETS * mean, 0.0
        variance = sum((one - mean) ** 2 for one in found) / (many - 1)
        return SETS * mean, SET_DOUBT * SETS * math.sqrt((1 - many / SETS) * variance / many)

    @property
    def instructions(self) -> int:
        """All executions."""
        return sum(sum(counts.values()) for counts in self.executed.values())


def read(lines: Iterable[str], into: Counts) -> None:
    """Add one file. Lines that are none of this format are left out."""
    whole = False
    counts = into.executed.setdefault("", {})
    code = into.code.setdefault("", {})
    for line in lines:
        text = line.rstrip("\n")
        if text.startswith("object "):
            name = text[len("object ") :]
            counts, code = into.executed.setdefault(name, {}), into.code.setdefault(name, {})
        elif text == "end":
            whole = True
        elif (segment := SEGMENT.fullmatch(text)) is not None:
            _add(segment, counts, code, into)
        elif (by_set := BY_SET.fullmatch(text)) is not None and by_set.group(1) in MISSES:
            found = [int(word) for word in by_set.group(2).split()]
            before = into.misses.get(by_set.group(1), [0] * len(found))
            if len(before) == len(found):
                into.misses[by_set.group(1)] = [a + b for a, b in zip(before, found, strict=True)]
        elif (named := NAMED.fullmatch(text)) is not None and named.group(1) in TOTALS:
            name = named.group(1)
            into.totals[name] = into.totals.get(name, 0) + int(named.group(2))
    into.cut += not whole


def _add(
    segment: re.Match[str], counts: dict[int, int], code: dict[int, bytes], into: Counts
) -> None:
    words = segment.groups()
    times, address = int(words[0]), int(words[1], 16)
    into.loads += times * int(words[2])
    into.stores += times * int(words[3])
    into.load_bytes += times * int(words[4])
    into.store_bytes += times * int(words[5])
    into.regions += times * int(words[6])
    if words[7] == "-" or words[8] == "-":
        return
    text, at = bytes.fromhex(words[8]), 0
    for digit in words[7]:
        length = int(digit, 16)
        counts[address] = counts.get(address, 0) + times
        code[address] = text[at : at + length]
        at += length
        address += length
