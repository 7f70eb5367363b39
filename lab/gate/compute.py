"""``python -m lab.gate.compute PART FOLDER``: one part in a process of its own.

A part that crashes, or that needs much memory, leaves the others alone; a thread count of one
gives the same sums on every machine.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

from berth.pilot.errors import BerthError
from lab.gate.figure import Part, load_parts
from lab.gate.part import Work
from lab.gate.results import Results
from lab.gate.sources import digest_of, folders


def compute(part: Part, results: Results, digest: Callable[[], str]) -> None:
    """Compute the figures of ``part`` and keep them.

    ``digest`` is of the sources as they are. Raises BerthError where they changed meanwhile, and
    for a figure that is not in the table.
    """
    began = time.process_time()
    work = Work(part.name, part.seed, results.work(part))
    found: dict[str, float] = importlib.import_module(part.module).figures(work)
    values = {f"{part.name}.{name}": value for name, value in found.items()}
    if unlisted := sorted(set(values) - {figure.id for figure in part.figures}):
        raise BerthError(f"{', '.join(unlisted)}: computed, but not in the table of figures")
    if digest() != results.sources:
        raise BerthError(f"the sources changed while {part.name} was computed; its result is void")
    results.write(part, values, time.process_time() - began)


def _digest() -> str:
    return digest_of(folders())


def main(arguments: list[str]) -> int:
    """Compute the named part; one sentence and 1 where it cannot be."""
    name, folder = arguments
    part = next(part for part in load_parts() if part.name == name)
    try:
        compute(part, Results(Path(folder), _digest()), _digest)
    except BerthError as error:
        print(error.message, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
