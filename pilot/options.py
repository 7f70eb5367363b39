"""The options of a pilot run, and their checks before anything runs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from berth.pilot.collectors.registry import COLLECTORS
from berth.pilot.errors import UsageError
from berth.pilot.launch import Order, resolve_command
from berth.pilot.profile import NAME_PATTERN
from berth.pilot.runs_on import Overrides

NAME = re.compile(NAME_PATTERN)
SIZE_MARK = "{size}"


@dataclass(frozen=True, slots=True)
class PilotOptions:
    """The options of a pilot: the program to run, and the measurements to make.

    Each of ``size`` and ``sizes`` replaces ``{size}`` in the command.
    """

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    name: str | None = None
    platform: str = "local"
    size: float | None = None
    sizes: tuple[float, ...] = ()
    threads_sweep: tuple[int, ...] = ()
    repeats: int | None = None
    """Number of native runs; None: two from ``BRIEF_S`` to ``SHORT_S``, else one."""
    count: bool = False
    """Whether to count instructions, bytes and misses under emulation, too."""
    time_limit_s: float = 600.0
    """Time limit of the whole pilot in seconds."""
    count_limit_s: float = 60.0
    """Limit of the emulated run's processor time in seconds."""
    collectors: tuple[str, ...] = field(default_factory=lambda: tuple(COLLECTORS.load_all()))
    stdin: str | None = None
    show_output: bool = True
    in_place: bool = False
    """Whether what the program writes stays, however often it runs."""
    overrides: Overrides = field(default_factory=Overrides)


@dataclass(frozen=True, slots=True)
class Plan:
    """A pilot's checked options; ``main`` is the problem size of the Profile's counters."""

    options: PilotOptions
    main: float | None
    sizes: tuple[float, ...]

    def order(self, size: float | None) -> Order:
        """Return the launch order for the command at problem size ``size``. Raises UsageError."""
        words = self.options.command
        if size is not None:
            words = tuple(word.replace(SIZE_MARK, f"{size:.15g}") for word in words)
        env = self.options.env
        return Order(resolve_command(words, env), env, stdin=self.options.stdin)

    @property
    def name(self) -> str:
        """Return the Profile's name: the user's, or else the program's file name and the size."""
        return self.options.name or default_name(self.options.command, self.main)


def default_name(command: Sequence[str], size: float | None) -> str:
    """Return a profile name: ``"my-app"`` for ``("./my app", "5")``, ``"my-app-100"`` with size."""
    stem = re.sub(r"[^A-Za-z0-9_.+-]+", "-", PurePath(command[0]).name).strip("-.+_") or "program"
    return f"{stem}-{size:.15g}"[:128] if size is not None else stem[:128]


def check_name(option: str, name: str | None) -> None:
    """Raise UsageError if ``name`` is not a valid name of a profile or platform."""
    if name is not None and not NAME.fullmatch(name):
        raise UsageError(
            f"{option}: {name!r} is not a name", hint="letters, digits and _.+- (at most 128)"
        )


def make_plan(options: PilotOptions) -> Plan:
    """Return a pilot's checked options. Raises UsageError for invalid combinations."""
    sizes = tuple(dict.fromkeys(options.sizes))
    main = options.size if options.size is not None else min(sizes, default=None)
    marked = any(SIZE_MARK in word for word in options.command)
    if sizes and not marked:
        raise UsageError(
            "--sizes needs {size} in the command", hint="for example: -- ./app --cells {size}"
        )
    if marked and main is None:
        raise UsageError("the command holds {size} but no size was given", hint="add --size 1000")
    if main is not None and sizes and main not in sizes:
        sizes = (*sizes, main)
    if any(not 0 < size < float("inf") for size in (*sizes, *(() if main is None else (main,)))):
        raise UsageError("a problem size must be above 0")
    check_name("--name", options.name)
    check_name("--platform", options.platform)
    if options.repeats is not None and options.repeats < 1:
        raise UsageError("--repeats must be at least 1")
    if not min(options.time_limit_s, options.count_limit_s) > 0:
        raise UsageError("--time-limit and --count-limit must be above 0")
    for name in options.collectors:
        COLLECTORS.load(name)
    if options.stdin is not None and not Path(options.stdin).is_file():
        raise UsageError(f"--stdin: {options.stdin} is not a file")
    return Plan(options, main, tuple(sorted(sizes)))
