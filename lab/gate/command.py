"""``python -m lab gate``: compute the headline figures and judge them."""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from berth.pilot.errors import BerthError, UsageError
from lab.gate.figure import Frozen, Part, Verdict, load_frozen, load_parts, save_frozen
from lab.gate.report import Line, exit_status, judge, outdated, summary, table, worse
from lab.gate.results import Result, Results
from lab.gate.run import run
from lab.gate.sources import digest_of, folders

FOLDER = Path("report/gate")


def main(arguments: list[str]) -> int:
    """Exit status 0: no figure is worse; 1: some are; 2: some could not be computed."""
    asked = _parser().parse_args(arguments)
    try:
        return _gate(asked)
    except BerthError as error:
        print(f"{error.message}{f' ({error.hint})' if error.hint else ''}", file=sys.stderr)
        return error.exit_status


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m lab gate", description=__doc__)
    made.add_argument("parts", nargs="*", help="only these parts")
    made.add_argument("--full", action="store_true", help="the long parts, too")
    made.add_argument("--fresh", action="store_true", help="compute again what is in --folder")
    made.add_argument("--folder", type=Path, default=FOLDER, help="of results (report/gate)")
    made.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="at a time")
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument("--freeze", action="store_true", help="take the values now as those before")
    made.add_argument(
        "--accept", metavar="REASON", help="the same of figures that are worse alone, and why"
    )
    made.add_argument("--list", action="store_true", help="list parts and figures; compute none")
    return made


def _gate(asked: argparse.Namespace) -> int:
    every, frozen = load_parts(), load_frozen()
    parts = choose(every, asked.parts, full=asked.full)
    if asked.list:
        print(table(judge(parts, {}, frozen)))
        return 0
    if asked.jobs < 1:
        raise UsageError("--jobs is at least 1")
    results = Results(asked.folder, digest_of(folders()))
    if asked.fresh:
        forget(results, parts)
    began = time.monotonic()
    found = run(parts, results, jobs=asked.jobs, say=lambda text: print(text, file=sys.stderr))
    if asked.freeze:
        frozen = freeze(found, frozen)
        save_frozen(frozen, every)
    lines = judge(parts, found, frozen)
    if asked.accept:
        frozen = accept(lines, frozen, asked.accept)
        save_frozen(frozen, every)
        lines = judge(parts, found, frozen)
    if asked.json:
        print(json.dumps([_as_dict(line) for line in lines], indent=1))
    else:
        print(table(lines))
    for sentence in (*outdated(lines), *worse(lines)):
        print(sentence, file=sys.stderr)
    print(f"{summary(lines)}; {time.monotonic() - began:.0f} s", file=sys.stderr)
    return exit_status(lines)


def choose(parts: Sequence[Part], names: Sequence[str], *, full: bool) -> tuple[Part, ...]:
    """Return the parts that are named, else the short ones. Raises UsageError for an unknown
    name."""
    known = {part.name: part for part in parts}
    if unknown := next((name for name in names if name not in known), None):
        raise UsageError(f"there is no part {unknown!r}", hint=f"parts: {', '.join(known)}")
    if names:
        return tuple(part for part in parts if part.name in names)
    return tuple(part for part in parts if full or not part.full)


def forget(results: Results, parts: Sequence[Part]) -> None:
    """Remove the results and the unfinished work of ``parts``."""
    for part in parts:
        results.path(part).unlink(missing_ok=True)
        shutil.rmtree(results.work(part), ignore_errors=True)


def freeze(found: Mapping[str, Result], frozen: Mapping[str, Frozen]) -> dict[str, Frozen]:
    """``frozen`` with the values of all results. Raises BerthError for one that is no number."""
    made = dict(frozen)
    for result in found.values():
        for name, value in result.values.items():
            made[name] = _taken(name, value)
    return made


def accept(lines: Sequence[Line], frozen: Mapping[str, Frozen], reason: str) -> dict[str, Frozen]:
    """``frozen`` with the values now of figures that are worse. Raises as ``freeze`` does."""
    found = {line.figure.id: line.now for line in lines if line.verdict is Verdict.WORSE}
    return {**frozen, **{name: _taken(name, value, reason) for name, value in found.items()}}


def _taken(name: str, value: float | None, reason: str = "") -> Frozen:
    if value is None or not math.isfinite(value):
        raise BerthError(f"{name} is not a number and cannot be frozen")
    return Frozen(before=value, frozen_from="run", commit=_commit(), reason=reason)


@functools.cache
def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def _as_dict(line: Line) -> dict[str, object]:
    return {
        **line.figure.model_dump(),
        "part": line.part.name,
        "before": None if line.before is None else line.before.before,
        "frozen_from": None if line.before is None else line.before.frozen_from,
        "accepted_because": (line.before.reason or None) if line.before else None,
        "now": line.now,
        "verdict": line.verdict.value,
    }
