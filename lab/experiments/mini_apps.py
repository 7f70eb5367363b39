"""Platforms never trained on, from benchmark rates."""

from __future__ import annotations

from dataclasses import asdict

from berth.plugin.cli.columns import columns
from lab.experiments.options import Options
from lab.experiments.shown import show


def evaluate(options: Options) -> None:
    """Every ordered pair of platforms by each method."""
    from lab.datasets.machines import mini_apps  # noqa: PLC0415 - needs the extra
    from lab.relative.mini_apps import METHODS, SPLIT  # noqa: PLC0415
    from lab.relative.mini_apps import evaluate as run  # noqa: PLC0415

    found = run(mini_apps())
    rows = [
        (
            each.app,
            str(len(each.platforms)),
            str(len(each.platforms) * (len(each.platforms) - 1)),
            *(f"{each.median_error[name]:.1%}" for name in METHODS),
        )
        for each in found
    ]
    told = columns(("mini-app", "platforms", "pairs", *METHODS), rows)
    show(
        options,
        {"split": SPLIT, "apps": [asdict(each) for each in found]},
        f"Split: {SPLIT}. Median error of the time on the target:\n{told}",
        file="mini-apps.json",
    )
