"""Mini-apps on platforms never trained on."""

from __future__ import annotations

from lab.datasets.machines import mini_apps
from lab.gate.part import Work
from lab.relative.mini_apps import evaluate_apps


def figures(work: Work) -> dict[str, float]:
    """Return median errors of the nested choice, by mini-app."""
    found = evaluate_apps(mini_apps())
    work.advance()
    return {each.app.lower(): each.median_error["nested"] for each in found}
