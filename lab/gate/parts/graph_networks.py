"""Graph networks beside trees and the served method, all folds (long)."""

from __future__ import annotations

from lab.gate.part import Work
from lab.latency.timm_runs import runs
from lab.published.graph_networks.evaluate import evaluate, plan

SPLITS = {"unseen model": "model", "unseen family": "family"}
METHODS = {
    "sage, mean": "sage-mean",
    "sage, sum": "sage-sum",
    "served: sum + process": "served",
    "mean of served: sum + process and sage, sum": "mean",
}


def figures(work: Work) -> dict[str, float]:
    """Mean errors of unseen models and families."""
    found = evaluate(runs(), seed=work.seed, parts=plan()[:2], advance=work.advance)
    return {
        f"{SPLITS[one.split]}.{METHODS[one.method]}.mape": one.figures.mean_error
        for one in found.results
        if one.split in SPLITS and one.method in METHODS
    }
