"""Serving of language models: held-out rows, blocks and accelerators; the shipped method alone."""

from __future__ import annotations

from berth.predictor.families.language_model.physics import OFFLINE, TPOT, TTFT
from lab.datasets.llm import BENCH, SERVING
from lab.gate.part import Work
from lab.llm.cases import rows_of, table
from lab.llm.language_models import errors
from lab.llm.situations import ACCELERATORS, BLOCKS, ROWS, folds, leave_out
from lab.llm.widths import coverage, nested_log_widths, shipped_widths

HEADS = {
    "throughput": (OFFLINE, BENCH.path),
    "first-token": (TTFT, SERVING.path),
    "each-token": (TPOT, SERVING.path),
}
"""Head, and the data set whose rows are scored, of those fitted on."""


def figures(work: Work) -> dict[str, float]:
    """Return median and mean errors and coverage by quantity and split."""
    made: dict[str, float] = {}
    for name, (head, path) in HEADS.items():
        for split in (ROWS, BLOCKS, ACCELERATORS):
            for figure, value in scored(head, split, path, work.seed).items():
                made[f"{name}.{split}.{figure}"] = value
            work.advance()
    return made


def scored(head: str, split: str, path: str, seed: int) -> dict[str, float]:
    """Return median and mean error and coverage of a data set's rows of a head, left out."""
    data = table(head)
    held = leave_out(data, folds(data, split, seed), seed)
    own = rows_of(data, path)[held.row]
    off = errors(head, held.measured[own], held.process[own])
    inside = coverage(held, nested_log_widths(held, split, shipped_widths()[head]), own)
    return {
        "median": off.median_error,
        "mean": off.mean_error,
        "coverage": float("nan") if inside is None else inside[0],
    }
