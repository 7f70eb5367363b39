"""What the language model reads beside the graph token, and what it is to write.

Times have two notations. ``scientific`` is microseconds as ``2.031e1``: what a pre-trained model
has seen most. ``logarithm`` is four digits, thousandths of the decimal logarithm of nanoseconds:
``4308``; each digit narrows the time by the same factor, none carries over at a power of ten.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum

import numpy as np

from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.summary import summarise
from lab.latency.timm_runs import Runs

OPEN, CLOSE = "<graph>", "</graph>"
SUMMARISE = "Summarise the graph"
OPERATORS = 4
"""Named in a summary: those that compute most, and what little there is beside them."""
_SCIENTIFIC = re.compile(r"(\d)\.(\d{3})e(-?\d{1,2})", re.ASCII)
_LOGARITHM = re.compile(r"\d{4,5}", re.ASCII)
_MICROSECOND, _NANOSECOND = 1e-6, 1e-9


class Notation(StrEnum):
    """How a time is written."""

    SCIENTIFIC = "scientific"
    LOGARITHM = "logarithm"


def write(seconds: float, notation: Notation) -> str:
    """Return the text of a time; right within 0.05 % (scientific) or 0.12 % (logarithm).

    Raises ValueError for a time that is not positive and finite, or under 1 us in ``logarithm``.
    """
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"{seconds} is not a time")
    if notation is Notation.SCIENTIFIC:
        mantissa, exponent = f"{seconds / _MICROSECOND:.3e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    if seconds < _MICROSECOND:
        raise ValueError(f"{seconds} s is under a microsecond: write it as scientific")
    return f"{round(1000 * math.log10(seconds / _NANOSECOND)):04d}"


def read(text: str, notation: Notation) -> float | None:
    """Seconds; None where ``text`` is anything else than one number in this notation.

    Blanks do not count: tokenizers that split words put them between digits.
    """
    packed = "".join(text.split())
    if notation is Notation.SCIENTIFIC:
        found = _SCIENTIFIC.fullmatch(packed)
        return float(packed) * _MICROSECOND if found and found[1] != "0" else None
    return 10 ** (int(packed) / 1000) * _NANOSECOND if _LOGARITHM.fullmatch(packed) else None


def prompts(runs: Runs) -> list[str]:
    """Return [rows] the question that each row answers."""
    columns = (runs.device, runs.precision, runs.layout, runs.torch, runs.compiled, runs.batch,
               runs.image_size)  # fmt: skip
    return [
        f"Inference time on {device}, {precision}, {layout}, torch {torch}, "
        f"{'compiled' if compiled else 'eager'}, batch {batch}, image {size}:"
        for device, precision, layout, torch, compiled, batch, size in zip(
            *(one.tolist() for one in columns), strict=True
        )
    ]


def depth(graph: ModelGraph) -> int:
    """Nodes on the longest path."""
    longest = np.ones(len(graph), np.int64)
    for source, target in graph.edges[:, np.argsort(graph.edges[1], kind="stable")].T.tolist():
        longest[target] = max(longest[target], longest[source] + 1)
    return int(longest.max())


def summary(graph: ModelGraph) -> str:
    """Return the text of a graph that stage 2 learns to write (thesis, section 7.7.3), at its
    batch."""
    rows = summarise(graph).operators[:OPERATORS]
    named = ", ".join(f"{row.operator} {row.nodes}" for row in rows)
    return (
        f"{len(graph)} nodes, {graph.edges.shape[1]} edges, depth {depth(graph)}, "
        f"{_short(graph.total_macs)} MACs, {_short(graph.parameters)} parameters: {named}"
    )


def _short(count: float) -> str:
    """Three digits and a unit: 25.6 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.3g}"
