"""Serving of language models: held-out rows, blocks and accelerators; the shipped method alone."""

from __future__ import annotations

from berth.predictor.families.language_model.physics import OFFLINE, TPOT, TTFT
from lab.datasets.llm import BENCH, SERVING
from lab.gate.part import Work
from lab.ground.resume import Resume
from lab.llm.cases import rows_of, table
from lab.llm.language_models import errors, key_of
from lab.llm.situations import ACCELERATORS, BLOCKS, ROWS, Held, folds, leave_out
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
            for figure, value in scored(work, head, split, path).items():
                made[f"{name}.{split}.{figure}"] = value
            work.advance()
    return made


def held_rows(work: Work, head: str, split: str) -> Held:
    """Return the rows of a head, left out; folds of an interrupted run are not fitted again."""
    resume, key = Resume(work.folder), key_of(head, split, work.seed)
    return leave_out(
        table(head), folds(table(head), split, work.seed), work.seed, resume=resume, key=key
    )


def scored(work: Work, head: str, split: str, path: str) -> dict[str, float]:
    """Return median and mean error and coverage of a data set's rows of a head, left out."""
    held = held_rows(work, head, split)
    own = rows_of(table(head), path)[held.row]
    off = errors(head, held.measured[own], held.process[own])
    inside = coverage(held, nested_log_widths(held, split, shipped_widths()[head]), own)
    return {
        "median": off.median_error,
        "mean": off.mean_error,
        "coverage": float("nan") if inside is None else inside[0],
    }
