"""Small made-up machines and runs: times follow what counters and signatures reveal."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

BANDWIDTH = {"alpha": 1.0, "beta": 2.0, "gamma": 4.0, "delta": 8.0}
"""Relative; ``delta`` is the machine that nothing is trained on."""
COUNTERS = ("load_ratio", "branch_ratio", "l1_load_misses")


def write_runs(path: Path, applications: Sequence[str], machines: Sequence[str]) -> None:
    """Six configurations of each application on each machine."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["application", "config", "machine", "runtime_s", *COUNTERS])
        for application in applications:
            random = np.random.default_rng(sum(map(ord, application)))
            for config in range(6):
                load, branch = random.uniform(0.1, 0.6), random.uniform(0.01, 0.2)
                misses = 10 ** random.uniform(3, 8)
                for machine in machines:
                    seconds = 0.01 + misses * 1e-6 / BANDWIDTH[machine] * load
                    writer.writerow(
                        [application, f"n{config}", machine, seconds, load, branch, misses]
                    )


def write_machines(path: Path, machines: Sequence[str]) -> None:
    """Three benchmark runs of each machine."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["machine", "config", "triad", "dot", "copy"])
        for machine in machines:
            for threads in (1, 4, 16):
                rate = BANDWIDTH[machine] * threads**0.5
                writer.writerow([machine, threads, rate, 0.9 * rate, 1.1 * rate])


def write_case(folder: Path, **changes: str) -> Path:
    """A whole case: data and ``xamm.toml``; ``changes`` are lines of TOML by key."""
    write_runs(folder / "train.csv", ["lulesh", "kripke", "laghos"], ["alpha", "beta", "gamma"])
    write_runs(folder / "test.csv", ["minivite"], ["alpha", "gamma", "delta"])
    write_machines(folder / "machines.csv", list(BANDWIDTH))
    lines = {
        "machine_data": '"machines.csv"',
        "app_train_data": '"train.csv"',
        "app_test_data": '"test.csv"',
        "source_machine": '"alpha"',
        "target_machines": '["gamma", "delta"]',
        "epochs": "3",
        **changes,
    }
    config = folder / "xamm.toml"
    config.write_text("".join(f"{k} = {v}\n" for k, v in lines.items() if v), encoding="utf-8")
    return config
