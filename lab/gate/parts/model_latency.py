"""Latency of models on known platforms: rows at random, unseen models, unseen families."""

from __future__ import annotations

from lab.gate.part import Work
from lab.latency.evaluate_latency import OURS, latency_report

SPLITS = {"rows": "random rows", "model": "unseen model", "family": "unseen family"}
GRAPH, ALL, OWN = "with a graph", "all rows", "our own CPU"


def figures(work: Work) -> dict[str, float]:
    """Return mean errors, shares within 10 % and coverage of the shipped method."""
    found = latency_report(work.seed, ("random", "model", "family", "own"), work.advance)
    ours = {(one.split, one.rows_of): one for one in found.data["results"] if one.family == OURS}
    made: dict[str, float] = {}
    for short, split in SPLITS.items():
        one = ours[split, GRAPH].figures
        made[f"{short}.mape"] = one.mean_error
        made[f"{short}.median"] = one.median_error
        made[f"{short}.within"] = one.within_10
        made[f"{short}.coverage"] = float("nan") if one.coverage is None else one.coverage
        made[f"{short}.all.mape"] = ours[split, ALL].figures.mean_error
    made["own.mape"] = ours["leave one model out", OWN].figures.mean_error
    return made
