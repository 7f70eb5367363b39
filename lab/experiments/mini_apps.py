"""Mini-apps on platforms never trained on, from benchmark rates."""

from __future__ import annotations

from lab.datasets.machines import mini_apps
from lab.experiments.options import Options
from lab.ground.report import Report, Section
from lab.relative.mini_apps import METHODS, SPLIT, evaluate_apps


def evaluate(options: Options) -> Report:
    """Every ordered pair of platforms by each method."""
    found = evaluate_apps(mini_apps())
    rows = [
        (app.app, str(count), str(count * (count - 1)),
         *(f"{app.median_error[name]:.1%}" for name in METHODS))
        for app in found
        for count in [len(app.platforms)]
    ]  # fmt: skip
    return Report(
        "Mini-apps on platforms never trained on",
        (f"Split: {SPLIT}.",),
        (Section("Median error of the time on the target",
                 ("mini-app", "platforms", "pairs", *METHODS), rows),),
        {"split": SPLIT, "apps": found},
    )  # fmt: skip
