"""VAE + DNN by the measures of its paper, beside a random forest (long)."""

from __future__ import annotations

from berth.predictor.learning.resume import Resume
from lab.gate.part import Work
from lab.published.vae.evaluate import evaluate

LINES = {
    ("AIWC", "random rows"): ("aiwc.rows", ("r2", "order")),
    ("RAJAPerf", "random rows"): ("rajaperf.rows", ("r2", "median")),
    ("RAJAPerf", "unseen kernel"): ("rajaperf.kernel", ("r2", "median")),
}
"""(data, split) -> name, and what is judged."""
FAMILY = "VAE + DNN"


def figures(work: Work) -> dict[str, float]:
    """R2, median error and whole orders of four of VAE + DNN with one seed."""
    made: dict[str, float] = {}
    for line in evaluate((work.seed,), Resume(work.folder), work.advance):
        where = (line.data, line.split.partition(":")[0])
        if line.family != FAMILY or where not in LINES:
            continue
        name, shown = LINES[where]
        values = {
            "r2": line.r2_log_speedup, "median": line.median_error, "order": line.order_of_four
        }  # fmt: skip
        made |= {f"{name}.{one}": values[one][0] for one in shown}
    return made
