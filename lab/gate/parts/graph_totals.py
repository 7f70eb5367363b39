"""Parameters and MACs of the timm graphs beside the published ones."""

from __future__ import annotations

from lab.gate.part import Work
from lab.graphs.totals import evaluate_totals


def figures(work: Work) -> dict[str, float]:
    """Return shares of graphs whose totals are right, and how many operators are unknown."""
    found = evaluate_totals(advance=work.advance)
    return {
        "parameters": found.parameters_right,
        "macs": found.macs_right,
        "macs-published-way": found.macs_right_published_way,
        "unknown": float(sum(row.unknown_operators for row in found.rows)),
    }
