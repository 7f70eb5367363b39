"""Run the parts that have no result yet, a few at a time, each in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import lab
from lab.gate.figure import Part
from lab.gate.results import Result, Results

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
Compute = Callable[[Part, Results], str]
"""Computes a part; what went wrong, or an empty string."""


def compute_apart(part: Part, results: Results) -> str:
    """Compute in a process of its own; its progress goes to standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "lab.gate.compute", part.name, str(results.folder.absolute())],
        cwd=Path(next(iter(lab.__path__))).parent,
        env={**os.environ, **ONE_THREAD},
        check=False,
    )
    return f"exit status {done.returncode}" if done.returncode else ""


def run(
    parts: Sequence[Part],
    results: Results,
    *,
    jobs: int,
    compute: Compute = compute_apart,
    say: Callable[[str], None] = lambda _: None,
) -> Mapping[str, Result]:
    """Part -> result. The longest part starts first; a part that fails is absent."""
    found: dict[str, Result] = {}
    waiting: list[Part] = []
    for part in parts:
        resumed = results.read(part)
        if resumed is None:
            waiting.append(part)
        else:
            found[part.name] = resumed
            say(f"{part.name}: computed before from the same sources ({resumed.seconds:.0f} s)")
    order = sorted(waiting, key=lambda part: part.seconds, reverse=jobs > 1)
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        running = {pool.submit(_one, part, results, compute, say): part for part in order}
        for done in as_completed(running):
            part, result = running[done], done.result()
            if result is not None:
                found[part.name] = result
    return found


def _one(
    part: Part, results: Results, compute: Compute, say: Callable[[str], None]
) -> Result | None:
    say(f"{part.name}: started, about {part.seconds:.0f} s")
    began = time.monotonic()
    wrong = compute(part, results)
    result = results.read(part)
    if result is None:
        say(f"{part.name}: FAILED, {wrong or 'no result'}")
        return None
    took = time.monotonic() - began
    say(f"{part.name}: done in {took:.0f} s ({result.seconds:.0f} s of one core)")
    return result
