"""Jobs as MISO and ParvaGPU measured them, for the MIG benchmarks."""

from __future__ import annotations

import csv
from collections import defaultdict

from berth.policies.mig.demands import Demand, SliceOption
from lab.datasets import DataSet, locate

WORK_S = 600.0
"""Run time of every job on a whole GPU; the data give rates, not lengths."""
WATTS = 300.0
"""Drawn by a whole GPU; a slice is charged by its compute slices. For the energy objective only."""
MISO = DataSet(
    path="mig/miso_a100_40gb_training.csv",
    title="training steps on five MIG profiles of an A100-40GB",
    source="MISO (SoCC 2022), github.com/boringlee24/socc22-miso",
    licence="MIT",
    sha256="d47207a1591facb806af63b220e424c428cb82fbbe15734052f57dbde10500fc",
)
PARVAGPU = DataSet(
    path="mig/parvagpu_a100_80gb_inference.csv",
    title="inference on five MIG profiles of an A100-80GB",
    source="ParvaGPU (SC 2024)",
    licence="MIT",
    sha256="a030a9f9e1c7fa9b1a947adeefb2d6cd92f640df445bf44c3e17250402219392",
)


def miso_jobs() -> list[Demand]:
    """Training jobs (model and batch size) with their speed on each slice that holds them."""
    steps: dict[str, dict[str, float]] = defaultdict(dict)
    with locate(MISO).open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row["fits"] == "True" and row["median_step_s"]:
                name = f"{row['model']}-{row['batch_size']}"
                steps[name][row["mig_profile"]] = float(row["median_step_s"])
    return [
        _job(name, {profile: times["7g.40gb"] / s for profile, s in times.items()})
        for name, times in sorted(steps.items())
        if "7g.40gb" in times
    ]


def parvagpu_jobs() -> list[Demand]:
    """Inference jobs (model and batch size, one process) with their rate on each slice.

    Rows without throughput did not run.
    """
    profiles = {"1": "1g.10gb", "2": "2g.20gb", "3": "3g.40gb", "4": "4g.40gb", "7": "7g.80gb"}
    rates: dict[str, dict[str, float]] = defaultdict(dict)
    with locate(PARVAGPU).open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row["Workload Number"] == "1" and float(row["Throughput"] or 0) > 0:
                name = f"{row['model']}-{row['Batch size']}"
                rates[name][profiles[row["Mig instance"]]] = float(row["Throughput"])
    return [
        _job(name, {profile: r / found["7g.80gb"] for profile, r in found.items()})
        for name, found in sorted(rates.items())
        if "7g.80gb" in found
    ]


def _job(name: str, speeds: dict[str, float]) -> Demand:
    """``speeds``: relative to the whole GPU."""
    return Demand(
        name,
        tuple(
            SliceOption(
                profile,
                throughput=speed,
                runtime_s=WORK_S / speed,
                energy_j=WATTS * int(profile[0]) / 7 * WORK_S / speed,
            )
            for profile, speed in sorted(speeds.items())
        ),
    )
