"""What the language model reads beside the graph token, and what it has to write.

A time is written as four or five digits: thousandths of the decimal logarithm of nanoseconds.
20.31 us is ``4308``. Each digit narrows the time by the same factor.
"""

from __future__ import annotations

import math
import re

import numpy as np

from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.summary import summarise
from lab.latency.timm_runs import Runs

OPEN, CLOSE = "<graph>", "</graph>"
SUMMARISE = "Summarise the graph"
OPERATORS = 4
"""How many operators a summary names: those that compute most."""
_DIGITS = re.compile(r"\d{4,5}", re.ASCII)
_NANOSECOND, _LEAST_S = 1e-9, 1e-6


def write(seconds: float) -> str:
    """Return the text of a time, right within 0.12 %.

    Raises ValueError for a time that is not finite or under a microsecond.
    """
    if not (math.isfinite(seconds) and seconds >= _LEAST_S):
        raise ValueError(f"{seconds} s cannot be written: it is under a microsecond or no time")
    return f"{round(1000 * math.log10(seconds / _NANOSECOND)):04d}"


def read(text: str) -> float:
    """Return the seconds that a text says; NaN where it is anything else than one time.

    Blanks do not count: tokenizers that split words put them between digits.
    """
    digits = "".join(text.split())
    return 10 ** (int(digits) / 1000) * _NANOSECOND if _DIGITS.fullmatch(digits) else math.nan


def prompts(runs: Runs) -> list[str]:
    """Return [rows] the question that each row answers."""
    columns = (runs.device, runs.precision, runs.layout, runs.torch, runs.compiled, runs.batch,
               runs.image_size)  # fmt: skip
    return [
        f"Inference time on {device}, {precision}, {layout}, torch {torch}, "
        f"{'compiled' if compiled else 'eager'}, batch {batch}, image {size}:"
        for device, precision, layout, torch, compiled, batch, size in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def depth(graph: ModelGraph) -> int:
    """Return the number of nodes on the longest path."""
    longest = np.ones(len(graph), np.int64)
    for source, target in graph.edges[:, np.argsort(graph.edges[1], kind="stable")].T.tolist():
        longest[target] = max(longest[target], longest[source] + 1)
    return int(longest.max())


def summary(graph: ModelGraph) -> str:
    """Return the text that stage 2 learns to write of a graph (thesis, section 7.7.3)."""
    rows = summarise(graph).operators[:OPERATORS]
    operators = ", ".join(f"{row.operator} {row.nodes}" for row in rows)
    return (
        f"{len(graph)} nodes, {graph.edges.shape[1]} edges, depth {depth(graph)}, "
        f"{_short(graph.total_macs)} MACs, {_short(graph.parameters)} parameters: {operators}"
    )


def _short(count: float) -> str:
    """Return three digits and a unit: 25.6 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.3g}"
