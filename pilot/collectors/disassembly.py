"""The text of executed instructions: binutils' objdump, over the parts of a file or over bytes."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

LINE = re.compile(r"^ *([0-9a-f]+):\t(.+)$")
GAP_BYTES = 4096
"""Executed addresses closer than this are disassembled together."""
LAST_INSTRUCTION_BYTES = 16
RANGES_MAX = 64
TIME_LIMIT_S = 20.0


def probe() -> str | None:
    """None when objdump is installed."""
    return None if shutil.which("objdump") else "objdump (binutils) is not installed"


def ranges(addresses: Iterable[int]) -> list[tuple[int, int]]:
    """Half-open address ranges that cover all ``addresses``, at most RANGES_MAX of them."""
    ordered = sorted(set(addresses))
    gap = GAP_BYTES
    while True:
        found: list[tuple[int, int]] = []
        for address in ordered:
            if found and address - found[-1][1] <= gap:
                found[-1] = (found[-1][0], address + LAST_INSTRUCTION_BYTES)
            else:
                found.append((address, address + LAST_INSTRUCTION_BYTES))
        if len(found) <= RANGES_MAX:
            return found
        gap *= 4


def parse(text: str) -> Iterator[tuple[int, str]]:
    """(address, instruction) of each line of objdump's output that holds one."""
    for line in text.splitlines():
        match = LINE.match(line)
        if match:
            yield int(match.group(1), 16), match.group(2).strip()


def disassemble(path: Path, addresses: Iterable[int]) -> dict[int, str]:
    """Instructions of ``path`` at the given addresses; unreadable ones are left out."""
    wanted = set(addresses)
    found: dict[int, str] = {}
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
        found.update((address, words) for address, words in parse(text) if address in wanted)
    return found


def texts_of(code: Iterable[bytes]) -> dict[bytes, str]:
    """Instructions by their bytes (x86-64); those that objdump cannot tell are left out."""
    ordered = sorted(set(code))
    starts: dict[int, bytes] = {}
    at = 0
    for one in ordered:
        starts[at] = one
        at += len(one)
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
    return {starts[address]: words for address, words in parse(text) if address in starts}
