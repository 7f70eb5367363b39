"""The instruction mix: counts of executed instructions by kind (floating point, load, branch, ...).

Valgrind gives the number of executions per address and the bytes there, objdump (binutils) the
instruction that they are. Counts of repeated string instructions are corrected: valgrind counts
each iteration (``rep stosb`` in a memset: one per byte), but processors move a vector's width at a
time. Such an instruction therefore counts as one instruction, with its accesses, per 32 bytes, and
at least once per execution.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from berth.pilot.collectors.x86 import Kind, classify, extension_of
from berth.pilot.emulator.tool import Segment, Segments
from berth.pilot.objdump import disassembled


def texts_of(code: Iterable[bytes]) -> dict[bytes, str]:
    """Return the disassembly of x86-64 instructions by their bytes; unknown ones are left out."""
    ordered = sorted(set(code))
    starts: dict[int, bytes] = {}
    at = 0
    for encoded in ordered:
        starts[at] = encoded
        at += len(encoded)
    with tempfile.NamedTemporaryFile(prefix="berth-code-") as file:
        file.write(b"".join(ordered))
        file.flush()
        lines = disassembled("-D", "-b", "binary", "-m", "i386:x86-64", file=file.name)
        return {starts[address]: text for address, text in lines or () if address in starts}


STRING = re.compile(r"rep\w* (?:movs|stos|lods|scas|cmps)([bwlq]?)\b(.*)")
ACCUMULATORS = {"%al": 1, "%ax": 2, "%eax": 4, "%rax": 8}
SUFFIXES = {"b": 1, "w": 2, "l": 4, "q": 8}
STRING_ACCESS_BYTES = 32
OPERATIONS = (
    "fp32_ops",
    "fp64_ops",
    "fp32_instructions",
    "fp64_instructions",
    "int_ops",
    "control_instructions",
    "vector_instructions",
    "atomic_ops",
    "loads",
    "stores",
)
"""Fields of a Mix that become counters."""
LEAST_CLASSIFIED = 0.95
"""Least share of executed instructions to classify; below it the mix's counters are missing."""


@dataclass(slots=True)
class Mix:
    """Numbers of executed instructions and operations by kind."""

    classified: int = 0
    repeats: int = 0
    """Iterations of string instructions that valgrind counts as separate instructions."""
    fp32_ops: int = 0
    fp64_ops: int = 0
    fp32_instructions: int = 0
    fp64_instructions: int = 0
    int_ops: int = 0
    control_instructions: int = 0
    vector_instructions: int = 0
    atomic_ops: int = 0
    loads: int = 0
    stores: int = 0
    sets: dict[str, frozenset[str]] = field(default_factory=dict)
    """Instruction sets that were executed, by executable or library."""

    def add(self, kind: Kind, times: int) -> None:
        """Add ``times`` executions of an instruction of this kind."""
        self.fp32_ops += times * kind.fp32_ops
        self.fp64_ops += times * kind.fp64_ops
        self.fp32_instructions += times * (kind.fp32_ops > 0)
        self.fp64_instructions += times * (kind.fp64_ops > 0)
        self.int_ops += times * kind.integer
        self.control_instructions += times * kind.control
        self.vector_instructions += times * kind.vector
        self.atomic_ops += times * kind.atomic
        self.loads += times * kind.loads
        self.stores += times * kind.stores


def mix_of(segments: Segments) -> Mix:
    """Return the instruction mix of the executed segments, disassembled from their bytes.

    Code that was generated at run time is included.
    """
    mix = Mix()
    executed = {path: _by_code(of_file) for path, of_file in segments.items()}
    texts = texts_of(code for by_code in executed.values() for code in by_code)
    strings = {code: match for code, text in texts.items() if (match := STRING.match(text))}
    for path, by_code in executed.items():
        for code, times in by_code.items():
            if code in texts:
                mix.classified += times
                if code not in strings:
                    mix.add(classify(texts[code]), times)
        _add_strings(mix, segments[path], strings)
        mix.sets[path] = sets_of(texts[code] for code in by_code if code in texts)
    return mix


def _by_code(segments: Mapping[Segment, int]) -> Counter[bytes]:
    executed: Counter[bytes] = Counter()
    for segment, times in segments.items():
        for _, code in segment.instructions():
            executed[code] += times
    return executed


def _add_strings(
    mix: Mix, segments: Mapping[Segment, int], strings: Mapping[bytes, re.Match[str]]
) -> None:
    """Add the repeated string instructions of one file to ``mix``.

    Such an instruction was completed as often as the next one was executed after it, which begins
    a segment.
    """
    starts: Counter[int] = Counter()
    executed: Counter[tuple[int, bytes]] = Counter()
    digits = [code.hex() for code in strings]
    for segment, times in segments.items():
        starts[segment.first] += times
        if any(code in segment.code for code in digits):
            executed.update({at: times for at in segment.instructions() if at[1] in strings})
    for (address, code), times in executed.items():
        following = address + len(code)
        completed = min(times, starts[following]) if following in starts else times
        moved = times * _width(*strings[code].groups())
        once = max(moved // STRING_ACCESS_BYTES, completed)
        mix.repeats += times - once
        mix.add(classify(strings[code].string), once)


def sets_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the instruction sets beyond x86-64-v1 that these disassembled instructions need."""
    return frozenset(name for text in texts if (name := extension_of(text)) is not None)


def _width(suffix: str, operands: str) -> int:
    if suffix:
        return SUFFIXES[suffix]
    return next((width for name, width in ACCUMULATORS.items() if f"{name}," in operands), 1)
