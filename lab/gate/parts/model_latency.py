"""Latency of models on known platforms: unseen models, unseen families, our own runs."""

from __future__ import annotations

from lab.gate.part import Work
from lab.latency.evaluate_latency import OURS, OWN, latency_report

SPLITS = {"model": "unseen model", "family": "unseen family"}


def figures(work: Work) -> dict[str, float]:
    """Return mean errors, shares within 10 % and coverage of the shipped method."""
    found = latency_report(work.seed, work.advance)
    ours = {one.split: one.figures for one in found.data["results"] if one.family == OURS}
    made = {"own.mape": ours[OWN.name].mean_error}
    for short, split in SPLITS.items():
        one = ours[split]
        made[f"{short}.mape"] = one.mean_error
        made[f"{short}.median"] = one.median_error
        made[f"{short}.within"] = one.within_10
        made[f"{short}.coverage"] = float("nan") if one.coverage is None else one.coverage
    return made
