"""Serving of language models: held-out rows, models and accelerators; the shipped method alone.

Of tokens a second two of the five folds of random rows are computed, of the rest every fold.
"""

from __future__ import annotations

from berth.predictor.families.language_model.physics import OFFLINE, TPOT, TTFT
from lab.datasets.llm import BENCH, SERVING
from lab.gate.part import Work
from lab.llm.cases import rows_of, table
from lab.llm.language_models import errors
from lab.llm.situations import ACCELERATORS, BLOCKS, ROWS, coverage, folds, leave_out, predicted

HEADS = {"throughput": OFFLINE, "first-token": TTFT, "each-token": TPOT}
SPLITS = {"rows": ROWS, "blocks": BLOCKS, "accelerators": ACCELERATORS}
FIRST_DATA = {OFFLINE: BENCH.path, TTFT: SERVING.path, TPOT: SERVING.path}
"""The data set whose rows are scored, of those fitted on."""
FEWER = {("throughput", "rows"): 2}
COVERED = (("throughput", "blocks"), ("throughput", "accelerators"))


def figures(work: Work) -> dict[str, float]:
    """Return median and mean errors by quantity and split; coverage of tokens a second."""
    made: dict[str, float] = {}
    for name, head in HEADS.items():
        for short, split in SPLITS.items():
            parts = folds(table(head), split, work.seed)[: FEWER.get((name, short))]
            held = leave_out(table(head), parts, work.seed)
            work.advance()
            own = rows_of(table(head), FIRST_DATA[head])[held.row]
            off = errors(head, held.measured[own], predicted(held)[own])
            made[f"{name}.{short}.median"] = off.median_error
            made[f"{name}.{short}.mean"] = off.mean_error
            if (name, short) in COVERED:
                inside = coverage(held, split)
                made[f"{name}.{short}.coverage"] = float("nan") if inside is None else inside[0]
    return made
