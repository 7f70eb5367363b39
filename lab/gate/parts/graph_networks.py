"""Graph networks beside trees and the served method, all folds (long)."""

from __future__ import annotations

from lab.gate.part import Work
from lab.latency.timm_runs import runs
from lab.published.graph_networks.evaluate_networks import TRAINING, networks_report, plan

SPLITS = {"unseen model": "model", "unseen family": "family"}
METHODS = {
    "sage, mean": "sage-mean",
    "sage, sum": "sage-sum",
    "served: sum + process": "served",
    "mean of served: sum + process and sage, sum": "mean",
}


def figures(work: Work) -> dict[str, float]:
    """Return mean errors of unseen models and families."""
    found = networks_report(runs(), seed=work.seed, parts=plan(TRAINING)[:2], advance=work.advance)
    return {
        f"{SPLITS[one.split]}.{METHODS[one.family]}.mape": one.figures.mean_error
        for one in found.data["results"]
        if one.split in SPLITS and one.family in METHODS
    }
