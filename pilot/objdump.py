"""Disassemble code by objdump (binutils)."""

from __future__ import annotations

import platform
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator, Sequence

CPU_LIMIT_S = 20
_LINE = re.compile(rb"^ *([0-9a-f]+):\t(.+)$", re.MULTILINE)


def objdump_missing() -> str | None:
    """Return why instructions cannot be disassembled, or None if objdump is installed."""
    return None if shutil.which("objdump") else "objdump (binutils) is not installed"


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))


def disassembled(
    *options: str, file: str, machine: str = "x86_64"
) -> Iterator[tuple[int, str]] | None:
    """Return (address, instruction) of the code in ``file``, of x86-64 in AT&T syntax.

    None where objdump is not installed, or takes more than ``CPU_LIMIT_S`` of processor time.
    """
    cross = f"{machine.replace('ppc', 'powerpc')}-linux-gnu-objdump"
    program = cross if machine != platform.machine() and shutil.which(cross) else "objdump"
    syntax = ("-M", "att") if machine == "x86_64" else ()
    command: Sequence[str] = (
        *(program, *options, *syntax, "--no-show-raw-insn", "-w", "--", file),
    )
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, env={"LC_ALL": "C"}, preexec_fn=_limited
        )
    except OSError:
        return None
    if done.returncode < 0:
        return None
    return parse_objdump(done.stdout)


def parse_objdump(text: bytes) -> Iterator[tuple[int, str]]:
    """Yield (address, instruction) for the lines of objdump's output that have an instruction."""
    for match in _LINE.finditer(text):
        yield int(match.group(1), 16), match.group(2).decode("utf-8", "replace").strip()
