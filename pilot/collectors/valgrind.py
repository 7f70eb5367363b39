"""Running a program under a valgrind tool: environment, command line, logs, warnings.

Emulated counts of a deterministic program are the same in every run: the simulated caches have
fixed sizes, the program gets one thread, and variables that differ between shells are removed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from berth.pilot.launch import Order, ProcessResult

VOLATILE = re.compile(
    r"_|OLDPWD|SHLVL|TERM.*|COLUMNS|LINES|LS_COLORS|PS\d|PROMPT.*|SSH_.*|XDG_.*|DBUS_.*|WINDOWID"
    r"|DISPLAY|TMUX.*|STY|BERTH_.*|INVOCATION_ID|JOURNAL_STREAM"
)
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
PINNED = {**dict.fromkeys(THREADS, "1"), "OMP_WAIT_POLICY": "passive", "PYTHONHASHSEED": "0"}
CUT_GRACE_S = 20.0
"""Seconds for valgrind to write its results: before SIGTERM, if it is asked to, and SIGKILL."""
RULES = {
    "processor time": "that is its limit (raise --count-limit, or give a smaller --size)",
    "time limit": "the pilot's time was over (raise --time-limit)",
}
"""Why counting ended before the program, by ``Outcome.cut``."""


def pinned_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for emulated runs: sorted, one thread, no shell-specific variables."""
    stable = {key: value for key, value in env.items() if not VOLATILE.fullmatch(key)}
    return dict(sorted((stable | PINNED).items()))


def wrap(order: Order, tool: list[str], folder: Path) -> Order:
    """Return the launch order with a valgrind tool; each process logs to ``folder/log.PID``."""
    valgrind = shutil.which("valgrind") or "valgrind"
    command = (
        valgrind,
        *tool,
        "--trace-children=yes",
        "--error-exitcode=0",
        f"--log-file={folder}/log.%p",
        "--",
        *order.command,
    )
    return replace(
        order,
        command=command,
        env=pinned_environment(order.env),
        sample=False,
        cut_grace_s=max(order.cut_grace_s, CUT_GRACE_S),
    )


@dataclass(frozen=True, slots=True)
class Process:
    """An emulated process as its valgrind log shows it: process IDs, command, text of the log."""

    pid: int
    parent: int
    command: str
    text: str


def processes(folder: Path) -> list[Process]:
    """Return the emulated processes that have a log in ``folder``, sorted by process ID."""
    logged = []
    for path in folder.glob("log.*"):
        suffix = path.name.removeprefix("log.")
        if not (suffix.isascii() and suffix.isdigit()):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        command = _first(r"^==\d+== Command: (.*)$", text)
        parent = _first(r"^==\d+== Parent PID: (\d+)$", text)
        logged.append(Process(int(suffix), int(parent or 0), command or "", text))
    return sorted(logged, key=lambda process: process.pid)


def forked_without_exec(logged: Sequence[Process]) -> int:
    """Return the number of processes that forked without exec.

    Their counts include those of their parent before the fork.
    """
    commands = {process.pid: process.command for process in logged}
    return sum(
        1
        for process in logged
        if process.command and commands.get(process.parent) == process.command
    )


def illegal_instruction(logged: Sequence[Process]) -> str | None:
    """Return a warning about an instruction that valgrind could not emulate, or None."""
    for process in logged:
        head = _first(r"unhandled instruction bytes: (.*)$", process.text)
        if head is None and "Illegal opcode" not in process.text:
            continue
        first = (head or "").split()
        kind = "an AVX-512 instruction" if needs_avx512(logged) else "an instruction"
        shown = f" ({' '.join(first[:6])})" if first else ""
        return (
            f"valgrind cannot emulate {kind}{shown} of {process.command or 'the program'}: only "
            "time, threads and memory are measured (built for x86-64-v3 it is counted, too)"
        )
    return None


def needs_avx512(logged: Sequence[Process]) -> bool:
    """Return whether the instruction that valgrind could not emulate has AVX-512's EVEX prefix."""
    heads = (_first(r"unhandled instruction bytes: (\S+)", process.text) for process in logged)
    return any(head is not None and head.lower() == "0x62" for head in heads)


def how_it_ended(outcome: ProcessResult, logged: Sequence[Process]) -> str | None:
    """Return why an emulated run's counters are incomplete, or None if the program completed."""
    illegal = illegal_instruction(logged)
    if illegal:
        return illegal
    if outcome.cut:
        rule = RULES.get(outcome.cut, "it was interrupted")
        return (
            f"a part of the program: counting ended after {outcome.cpu_s:.3g} s of processor time "
            f"because {rule}; ratios of counters are taken for the whole run, totals are not"
        )
    if outcome.signal is not None or outcome.exit_code != 0:
        return f"under emulation the program {outcome.describe()}"
    return None


def notices(note: str | None, logged: Sequence[Process] = ()) -> tuple[str, ...]:
    """Return the warnings of an emulated run: ``note``, and one for forked processes.

    The work of a parent before a fork is counted again in the child.
    """
    forked = forked_without_exec(logged)
    twice = (
        f"{forked} processes forked without exec, and what their parent did before the "
        "fork is in their counts again",
    )
    return ((note,) if note else ()) + (twice if forked else ())


def _first(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match.group(1) if match else None
