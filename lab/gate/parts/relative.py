"""Relative performance: the shipped cost model on AIWC, by all splits."""

from __future__ import annotations

from lab.gate.part import Work
from lab.ground.resume import Resume
from lab.relative import families
from lab.relative.data import aiwc_rows
from lab.relative.evaluation import evaluate
from lab.relative.orders import order_figures

SPLITS = {
    "application": "unseen application",
    "size": "unseen size",
    "counters": "unseen size, new counters",
    "rows": "random rows",
}
SHOWN = {
    "regret": "regret", "worst-regret": "worst_regret", "tau": "kendall_tau",
    "median": "median_time_error", "speedup-median": "median_speedup_error",
    "r2": "r2_log_speedup", "pairs": "pairs_right", "order": "order_of_four",
}  # fmt: skip


def figures(work: Work) -> dict[str, float]:
    """Return figures of the cost model that the documentation prints."""
    found = evaluate(
        aiwc_rows(), (families.COST_MODEL,), data="AIWC", seeds=(work.seed,),
        resume=Resume(work.folder),
        more_figures=order_figures, advance=work.advance,
    )  # fmt: skip
    by_split = {result.split: result.figures for result in found.results}
    made = {
        f"{split}.{short}": by_split[name][figure]
        for split, name in SPLITS.items()
        for short, figure in SHOWN.items()
    }
    return {name: made[name] for name in PRINTED}


PRINTED = (
    "application.regret", "application.worst-regret", "application.tau", "application.median",
    "application.speedup-median", "size.regret", "size.tau", "size.median", "size.r2",
    "size.order", "counters.regret", "rows.regret", "rows.tau", "rows.median", "rows.r2",
    "rows.pairs", "rows.order",
)  # fmt: skip
