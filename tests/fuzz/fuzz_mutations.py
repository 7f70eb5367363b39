"""Changes to an input of any target: of its structure where it is JSON or lines, else of bytes."""

from __future__ import annotations

import json
import random
import re

from json_mutations import ODD, mutate
from model_mutations import broken_bytes, broken_parts

from berth.pilot.protobuf import scan

ODD_JSON = (*ODD, 10**400, 2**31, 2**63, 5e-324, "9" * 400, "x" * 2000, "berth.profile/2")
ODD_TEXTS = (
    "", "-1", "--5", "0", "9" * 20, "9" * 400, "9" * 5000, "1e308", "1e-320", "nan", "inf",
    "\u0663", "\r", "0-999", "0-9,", "[", "]", "\0", "\ud7ff", "é", '"', "'", "\\",
    "9999-12-31T23:59:59", "0000-00-00T00:00:00",
    "1-00:00:00", "(null)", "UNLIMITED", "N/A", "x" * 3000,
)  # fmt: skip
_CELL = re.compile(r"[^|,;=:\s\[\]\"']+")


def mutated(data: bytes, dice: random.Random) -> bytes:
    """One change, the same for the same ``data`` and state of ``dice``."""
    kind = dice.random()
    if kind < 0.5:
        found = _json(data, dice)
        if found is not None:
            return found
    if kind < 0.8:
        return _cells(data, dice)
    return broken_bytes(data, dice)


def mutated_model(data: bytes, dice: random.Random) -> bytes:
    """The same of an ONNX file: parts of its graph, or bytes."""
    if dice.random() < 0.7:
        try:
            scan(data, 0, len(data))
            return broken_parts(data, dice)
        except Exception:  # noqa: S110 - no longer a model: protobuf has many ways to say so
            pass
    return broken_bytes(data, dice)


def _json(data: bytes, dice: random.Random) -> bytes | None:
    try:
        value = json.loads(data)
        if not isinstance(value, dict | list):
            return None
        mutate(value, dice, odd=ODD_JSON)
        return json.dumps(value).encode()
    except (ValueError, RecursionError):
        return None


def _cells(data: bytes, dice: random.Random) -> bytes:
    """A word replaced by an odd one or another, or a line repeated, moved or left out."""
    lines = data.decode("utf-8", "replace").split("\n")
    at = dice.randrange(len(lines))
    kind = dice.randrange(6)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(dice.randrange(len(lines) + 1), lines[at])
    else:
        cells = list(_CELL.finditer(lines[at]))
        if cells:
            cell = dice.choice(cells)
            texts = ODD_TEXTS if kind < 5 else [one[0] for one in cells]
            lines[at] = lines[at][: cell.start()] + dice.choice(texts) + lines[at][cell.end() :]
    return "\n".join(lines).encode("utf-8", "replace")
