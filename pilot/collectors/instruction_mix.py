"""The instruction mix: counts of executed instructions by kind (floating point, load, branch, ...).

Valgrind gives the number of executions per address, and objdump (binutils) the instruction at each
address. Counts of repeated string instructions are corrected: valgrind counts each iteration
(``rep stosb`` in a memset: one per byte), but processors move a vector's width at a time. Such an
instruction therefore counts as one instruction, with its accesses, per 32 bytes, and at least once
per execution.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from berth.pilot.collectors.x86 import Kind, classify
from berth.pilot.needs import is_system
from berth.pilot.private_folder import original

LINE = re.compile(r"^ *([0-9a-f]+):\t(.+)$")
GAP_BYTES = 4096
"""Executed addresses closer than this are disassembled together."""
LAST_INSTRUCTION_BYTES = 16
RANGES_MAX = 64
TIME_LIMIT_S = 20.0


def objdump_missing() -> str | None:
    """Return why instructions cannot be disassembled, or None if objdump is installed."""
    return None if shutil.which("objdump") else "objdump (binutils) is not installed"


def ranges(addresses: Iterable[int]) -> list[tuple[int, int]]:
    """Return half-open address ranges that cover all ``addresses``, at most RANGES_MAX of them."""
    ordered = sorted(set(addresses))
    gap = GAP_BYTES
    while True:
        merged: list[tuple[int, int]] = []
        for address in ordered:
            if merged and address - merged[-1][1] <= gap:
                merged[-1] = (merged[-1][0], address + LAST_INSTRUCTION_BYTES)
            else:
                merged.append((address, address + LAST_INSTRUCTION_BYTES))
        if len(merged) <= RANGES_MAX:
            return merged
        gap *= 4


def parse_objdump(text: str) -> Iterator[tuple[int, str]]:
    """Yield (address, instruction) for the lines of objdump's output that have an instruction."""
    for line in text.splitlines():
        match = LINE.match(line)
        if match:
            yield int(match.group(1), 16), match.group(2).strip()


def disassemble(path: Path, addresses: Iterable[int]) -> dict[int, str]:
    """Return the instructions of ``path`` at the given addresses; unreadable ones are left out."""
    wanted = set(addresses)
    instructions: dict[int, str] = {}
    for start, stop in ranges(wanted):
        command = ["objdump", "-d", "--no-show-raw-insn", "-w", "-M", "att"]
        command += [f"--start-address={start:#x}", f"--stop-address={stop:#x}", "--", str(path)]
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=TIME_LIMIT_S, check=False, env={"LC_ALL": "C"}
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        text = done.stdout.decode("utf-8", "replace")
        instructions.update(
            (address, words) for address, words in parse_objdump(text) if address in wanted
        )
    return instructions


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
        command = ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "-M", "att"]
        command += ["--no-show-raw-insn", "-w", "--", file.name]
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=TIME_LIMIT_S, check=False, env={"LC_ALL": "C"}
            )
        except (OSError, subprocess.TimeoutExpired):
            return {}
    text = done.stdout.decode("utf-8", "replace")
    return {starts[address]: words for address, words in parse_objdump(text) if address in starts}


ENOUGH = 0.995
"""Share of executed instructions to cover; files with the most executions are read first."""
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
LONGEST_INSTRUCTION_BYTES = 15

Executed = dict[str, dict[int, int]]
"""Number of executions by object file and address in the file."""


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


def mix_of(executed: Mapping[str, Mapping[int, int]], own: frozenset[str]) -> Mix:
    """Return the instruction mix of the executed addresses, disassembled from their files.

    ``own``: files that are disassembled even if they executed few instructions.
    """
    mix = Mix()
    total = sum(sum(counts.values()) for counts in executed.values())
    for path, counts in sorted(executed.items(), key=lambda item: -sum(item[1].values())):
        if mix.classified >= ENOUGH * total and is_system(path) and path not in own:
            continue
        if not Path(path).is_absolute() or not Path(path).is_file():
            continue
        texts = disassemble(Path(path), counts)
        add_object(mix, counts, texts)
        mix.sets[path] = sets_of(texts.values())
    return mix


def mix_of_code(
    executed: Mapping[str, Mapping[int, int]],
    code: Mapping[str, Mapping[int, bytes]],
) -> Mix:
    """Return the instruction mix of the executed addresses, disassembled from instruction bytes.

    Code that was generated at run time is included.
    """
    mix = Mix()
    texts = texts_of(encoded for by_address in code.values() for encoded in by_address.values())
    for path, counts in executed.items():
        known_texts = {at: texts[encoded] for at, encoded in code[path].items() if encoded in texts}
        add_object(mix, counts, known_texts)
        mix.sets[original(path)] = sets_of(set(known_texts.values()))
    return mix


def sets_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the instruction sets beyond x86-64-v1 that these disassembled instructions need."""
    return frozenset(name for text in texts if (name := classify(text).extension) is not None)


def add_object(mix: Mix, counts: Mapping[int, int], texts: Mapping[int, str]) -> None:
    """Add the instructions of one file to ``mix``.

    ``counts``: address -> number of executions; ``texts``: address -> instruction.
    """
    addresses = sorted(counts)
    for index, address in enumerate(addresses):
        text = texts.get(address)
        if text is None:
            continue
        times, kind = counts[address], classify(text)
        mix.classified += times
        string = STRING.match(text)
        if string is not None:
            moved = times * _width(string.group(1), string.group(2))
            once = max(moved // STRING_ACCESS_BYTES, _completions(addresses, index, counts))
            mix.repeats += times - once
            times = once
        mix.add(kind, times)


def _completions(addresses: Sequence[int], index: int, counts: Mapping[int, int]) -> int:
    """Return how often a repeated string instruction was completed.

    That is the number of executions of the next instruction.
    """
    times = counts[addresses[index]]
    if index + 1 < len(addresses):
        following = addresses[index + 1]
        if following - addresses[index] <= LONGEST_INSTRUCTION_BYTES:
            return min(times, counts[following])
    return times


def _width(suffix: str, operands: str) -> int:
    if suffix:
        return SUFFIXES[suffix]
    return next((width for name, width in ACCUMULATORS.items() if f"{name}," in operands), 1)
