"""Runs of a table as samples: counters may differ from machine to machine here."""

from __future__ import annotations

import numpy as np

from berth.predictor.families.program.ceilings import Floats
from berth.predictor.families.relative.tables import Runs
from lab.published.xamm.machines import mean_speedups
from lab.published.xamm.samples import Samples


def samples_of_runs(runs: Runs) -> Samples:
    """Every run is a sample on its machine; its targets are all machines."""
    machines = tuple(sorted(set(runs.machines)))
    keys, table = _times(runs, machines)
    place = {key: i for i, key in enumerate(keys)}
    index = tuple(place[key] for key in zip(runs.applications, runs.configurations, strict=True))
    labels = np.log(runs.seconds)[:, None] - table[list(index)]
    for i, machine in enumerate(runs.machines):
        labels[i, machines.index(machine)] = np.nan
    return Samples(
        features=np.column_stack([np.log1p(runs.values), np.log(runs.seconds)]),
        sources=runs.machines,
        targets=machines,
        log_speedup=labels,
        rows=index,
    )


def machine_labels(runs: Runs) -> dict[str, Floats]:
    """For ``learn_machines``: mean log speedup of each machine for each application."""
    machines = tuple(sorted(set(runs.machines)))
    keys, table = _times(runs, machines)
    several = np.isfinite(table).sum(axis=1) > 1
    chosen = [application for (application, _), keep in zip(keys, several, strict=True) if keep]
    return mean_speedups(table[several], machines, chosen) if chosen else {}


def _times(runs: Runs, machines: tuple[str, ...]) -> tuple[list[tuple[str, str]], Floats]:
    keys = sorted(set(zip(runs.applications, runs.configurations, strict=True)))
    table = np.full((len(keys), len(machines)), np.nan)
    place = {key: i for i, key in enumerate(keys)}
    for a, c, m, seconds in zip(
        runs.applications, runs.configurations, runs.machines, runs.seconds, strict=True
    ):
        table[place[a, c], machines.index(m)] = np.log(seconds)
    return keys, table
