"""What a program of ``make fresh-site`` is: its command, its inputs and its Debian package."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Program:
    """A real program: its command, and how many threads or ranks it computes with."""

    name: str
    tool: str
    """The executable without which the program is left out."""
    command: tuple[str, ...]
    threads: int = 1
    prepare: Callable[[Path], None] = lambda _: None
    """Writes its inputs to the folder that its command names; the same inputs every time."""
    package: str = ""
    """What brings the executable on Debian; empty: it is there wherever the tests run."""


def installed(programs: Sequence[Program]) -> tuple[list[Program], list[Program]]:
    """Return those whose executable is installed, and the others."""
    there = [program for program in programs if shutil.which(program.tool)]
    return there, [program for program in programs if program not in there]


def packages(programs: Sequence[Program]) -> list[str]:
    """Return the Debian packages of these programs, sorted."""
    return sorted({name for program in programs for name in program.package.split()})
