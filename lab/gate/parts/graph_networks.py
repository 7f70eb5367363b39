"""DIPPM's network and the served method, all folds (long)."""

from __future__ import annotations

from lab.gate.part import Work
from lab.latency.timm_runs import runs
from lab.published.graph_networks.evaluate_networks import (
    NETWORK,
    SERVED,
    methods,
    networks_report,
)

SPLITS = {"unseen model": "model", "unseen family": "family"}
NAMES = {NETWORK: "sage-mean", SERVED: "served"}


def figures(work: Work) -> dict[str, float]:
    """Return mean errors of unseen models and families."""
    found = networks_report(runs(), methods(), seed=work.seed, advance=work.advance)
    return {
        f"{SPLITS[one.split]}.{NAMES[one.family]}.mape": one.figures.mean_error
        for one in found.data["results"]
    }
