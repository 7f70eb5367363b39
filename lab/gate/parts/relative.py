"""Relative performance: the shipped cost model on AIWC, by all splits."""

from __future__ import annotations

from lab.gate.part import Work
from lab.ground.resume import Resume
from lab.relative import families
from lab.relative.data import aiwc_rows
from lab.relative.evaluation import evaluate

SPLITS = {"application": "unseen application", "rows": "random rows"}
SHOWN = {
    "regret": "regret", "worst-regret": "worst_regret", "tau": "kendall_tau",
    "median": "median_time_error", "speedup-median": "median_speedup_error",
}  # fmt: skip
NOT_PRINTED = (("rows", "worst-regret"), ("rows", "speedup-median"))


def figures(work: Work) -> dict[str, float]:
    """Return figures of the cost model that the documentation prints."""
    found = evaluate(
        aiwc_rows(), (families.COST_MODEL,), data="AIWC", seeds=(work.seed,),
        resume=Resume(work.folder), advance=work.advance,
    )  # fmt: skip
    by_split = {result.split: result.figures for result in found.results}
    return {
        f"{split}.{short}": by_split[name][figure]
        for split, name in SPLITS.items()
        for short, figure in SHOWN.items()
        if (split, short) not in NOT_PRINTED
    }
