"""VAE + DNN by the measures of its paper, beside a random forest (long)."""

from __future__ import annotations

from lab.gate.part import Work
from lab.ground.resume import Resume
from lab.published.vae.vae_dnn import evaluate_both

LINES = {
    ("AIWC", "random rows"): ("aiwc.rows", ("r2", "order")),
    ("RAJAPerf", "random rows"): ("rajaperf.rows", ("r2", "median")),
    ("RAJAPerf", "unseen kernel"): ("rajaperf.kernel", ("r2", "median")),
}
"""(data, split) -> name, and what is judged."""
FAMILY = "VAE + DNN"
FIGURES = {"r2": "r2_log_speedup", "median": "median_error", "order": "order_of_four"}


def figures(work: Work) -> dict[str, float]:
    """R2, median error and whole orders of four of VAE + DNN with one seed."""
    made: dict[str, float] = {}
    for data, results in evaluate_both((work.seed,), Resume(work.folder), work.advance).items():
        for one in results:
            if one.family == FAMILY and (data, one.split) in LINES:
                name, shown = LINES[data, one.split]
                made |= {f"{name}.{short}": one.figures[FIGURES[short]] for short in shown}
    return made
