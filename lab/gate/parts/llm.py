"""Serving of language models: held-out rows, blocks and accelerators; the shipped method alone."""

from __future__ import annotations

from berth.predictor.families.language_model.physics import OFFLINE, TPOT, TTFT
from lab.datasets.llm import BENCH, SERVING
from lab.gate.part import Work
from lab.llm.cases import rows_of, table
from lab.llm.language_models import errors
from lab.llm.situations import ACCELERATORS, BLOCKS, ROWS, folds, leave_out
from lab.llm.widths import coverage, nested_log_widths, shipped_widths

HEADS = {"throughput": OFFLINE, "first-token": TTFT, "each-token": TPOT}
SPLITS = {"rows": ROWS, "blocks": BLOCKS, "accelerators": ACCELERATORS}
FIRST_DATA = {OFFLINE: BENCH.path, TTFT: SERVING.path, TPOT: SERVING.path}
"""The data set whose rows are scored, of those fitted on."""


def figures(work: Work) -> dict[str, float]:
    """Return median and mean errors and coverage by quantity and split."""
    made: dict[str, float] = {}
    known = shipped_widths()
    for name, head in HEADS.items():
        for short, split in SPLITS.items():
            held = leave_out(table(head), folds(table(head), split, work.seed), work.seed)
            work.advance()
            own = rows_of(table(head), FIRST_DATA[head])[held.row]
            off = errors(head, held.measured[own], held.process[own])
            made[f"{name}.{short}.median"] = off.median_error
            made[f"{name}.{short}.mean"] = off.mean_error
            inside = coverage(held, nested_log_widths(held, split, known[head]), own)
            made[f"{name}.{short}.coverage"] = float("nan") if inside is None else inside[0]
    return made
