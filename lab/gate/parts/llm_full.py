"""Serving of language models as the documentation prints it: every fold, baselines beside it."""

from __future__ import annotations

from berth.predictor.families.language_model.physics import OFFLINE, TPOT, TTFT
from lab.gate.part import Work
from lab.llm.held_out import ACCELERATORS, BLOCKS, PAIRS, ROWS
from lab.llm.run import OURS, split_figures

HEADS = {"throughput": OFFLINE, "first-token": TTFT, "each-token": TPOT}
SPLITS = {"rows": ROWS, "blocks": BLOCKS, "pairs": PAIRS, "accelerators": ACCELERATORS}


def figures(work: Work) -> dict[str, float]:
    """Median and mean errors of the shipped method, and its coverage."""
    made: dict[str, float] = {}
    for name, head in HEADS.items():
        for short, split in SPLITS.items():
            found, _ = split_figures(head, split, work.seed, work.folder)
            work.advance()
            ours = next(one for one in found if one.method == OURS)
            made[f"{name}.{short}.median"] = ours.median_error
            made[f"{name}.{short}.mean"] = ours.mean_error
            if ours.coverage_90 is not None:
                made[f"{name}.{short}.coverage"] = ours.coverage_90
    return made
