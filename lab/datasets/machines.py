"""Mini-apps on whole nodes and cards (University of Bristol).

A platform is its name without the site (``skl-swan``, ``skl-horizon`` and ``skl`` are one); its
time is the least of the validated runs over compilers and programming models.
"""

from __future__ import annotations

import csv
from functools import cache

from lab.datasets import DataSet, locate

APPS = DataSet(
    path="machines/apps_wallclock.csv",
    title="Wall time of CloverLeaf, TeaLeaf, neutral and miniFMM",
    source="UoB-HPC, https://github.com/UoB-HPC/performance-portability",
    licence="MIT",
    sha256="3956d0afb5fdf628df9dfd1829ff415aa75c6427910124c5f5ddfd8df7e3361c",
)


@cache
def mini_apps() -> dict[str, dict[str, float]]:
    """Return seconds by mini-app and platform. Raises ToolMissing or DocumentError."""
    times: dict[str, dict[str, float]] = {}
    with locate(APPS).open(encoding="utf-8", newline="") as stream:
        for line in csv.DictReader(stream):
            if line["validated"] == "True":
                of_app = times.setdefault(line["app"], {})
                platform, taken = line["platform"].split("-")[0], float(line["wall_s"])
                of_app[platform] = min(taken, of_app.get(platform, taken))
    return times
