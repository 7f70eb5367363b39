"""HPCToolkit databases (folders), read by the Hatchet library where it is installed.

Hatchet is the optional extra ``import``; it runs in this process and is given only the folder.
Live ``hatchet.GraphFrame`` and ``thicket.Thicket`` objects come in by their own ``to_json``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError, ToolMissing
from berth.pilot.importers.frame import read_json
from berth.pilot.importers.reading import Source
from berth.pilot.importers.records import Table

TIME_METRIC = re.compile(
    rb"(?:CPUTIME|WALLCLOCK|REALTIME|cycles|gpuop)[^\"]{0,40}\((usec|us|sec|s)\)"
)
HEAD_BYTES = 1 << 20


def read_folder(folder: Path) -> list[Table]:
    """One Table. Raises ToolMissing without Hatchet, DocumentError where it cannot read it."""
    try:
        import hatchet  # noqa: PLC0415 - optional, heavy
    except ImportError:
        raise ToolMissing(
            "hatchet",
            needed_for="reading an HPCToolkit database",
            hint="pip install 'berth[import]' (in an environment without berth[train])",
        ) from None
    try:
        frame = hatchet.GraphFrame.from_hpctoolkit(str(folder))
    except Exception as error:
        raise DocumentError(
            folder, f"Hatchet cannot read it: {type(error).__name__}: {error}"
        ) from None
    unit = _unit(folder)
    return [
        Table(t.records, t.facts, {"time": unit, "time (inc)": unit} if unit else {})
        for t in from_graphframe(frame, str(folder))
    ]


def from_graphframe(frame: Any, name: str = "GraphFrame") -> list[Table]:
    """Tables of a live ``hatchet.GraphFrame`` or ``thicket.Thicket``, by way of its JSON."""
    text = frame.to_json()
    return read_json(Source(Path(name), b"", ""), json.loads(text))


def _unit(folder: Path) -> str:
    """The unit that the database's own metric names tell; empty: none."""
    for file in ("experiment.xml", "metrics/default.yaml"):
        try:
            with (folder / file).open("rb") as stream:
                found = TIME_METRIC.search(stream.read(HEAD_BYTES))
        except OSError:
            continue
        if found:
            return found.group(1).decode()
    return ""
