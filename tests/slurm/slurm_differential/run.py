"""``make differential``: thousands of jobs at random, each with and without Berth, on real Slurms.

Two kinds: jobs over all options, compared as they were submitted and started, and jobs that run to
their end, compared in what they did. Goes on where it was stopped: each batch is a line of the
report. Prints each difference with its seed, and the share of jobs that Berth really moved.

    PYTHONPATH=tests/slurm:tests/support python -m slurm_differential.run --pairs 5000
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from accounting_database import DatabaseUnavailable, require_database
from differential.report import add, batch_row, rows, seeds_left, summary
from differential.verdicts import Verdict
from slurm_cluster import Cluster
from slurm_differential import forms, options, outcomes, pairs
from slurm_differential.cases import WORLDS
from slurm_differential.options import option_names
from slurm_differential.outcome_worlds import OUTCOME_WORLDS
from slurm_differential.worlds import World, open_world

BATCH = 80
COMMANDS = ("sbatch", "srun", "salloc")


def main() -> int:
    """The exit status: 0 without a difference, 1 with one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5000, help="that are compared as submitted")
    parser.add_argument("--outcomes", type=int, default=1000, help="that run to their end")
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--report", type=Path, default=Path("report/differential/slurm.jsonl"))
    parser.add_argument("--world", help="only this one")
    parser.add_argument("--until-different", action="store_true", help="stop at the first one")
    asked = parser.parse_args()
    status = 0
    for worlds, count, judged, report in (
        (OUTCOME_WORLDS, asked.outcomes, _run_to_the_end,
         asked.report.with_stem(f"{asked.report.stem}-outcomes")),
        (WORLDS, asked.pairs, _submitted, asked.report),
    ):  # fmt: skip
        chosen = {w.name: w for w in _possible(worlds) if asked.world in (None, w.name)}
        left = seeds_left(
            report, list(chosen), pairs=count, batch=asked.batch, first=asked.first_seed
        )
        for name, seeds in left.items():
            if seeds:
                _in_world(chosen[name], seeds, asked.batch, judged, report)
            if asked.until_different and any(row["differences"] for row in rows(report)):
                return 1
        if count and chosen:
            status |= summary(report)
    return status


def _possible(worlds: Sequence[World]) -> list[World]:
    """The worlds that this machine can have."""
    try:
        require_database()
    except DatabaseUnavailable as missing:
        print(f"no world with accounts: {missing}", flush=True)
        return [world for world in worlds if world.accounting is None]
    return list(worlds)


def _in_world(
    world: World,
    seeds: Sequence[int],
    batch: int,
    judged: Callable[[Cluster, int, int], Sequence[Verdict[Any]]],
    report: Path,
) -> None:
    with open_world(world) as slurm:
        for seed in seeds:
            begun = time.monotonic()
            add(report, batch_row(world.name, seed, judged(slurm, seed, batch), begun))


def _submitted(slurm: Cluster, seed: int, count: int) -> Sequence[Verdict[Any]]:
    names = {command: option_names(slurm, command) for command in COMMANDS}
    return pairs.judge(slurm, options.asks(seed, count, names))


def _run_to_the_end(slurm: Cluster, seed: int, count: int) -> Sequence[Verdict[Any]]:
    return outcomes.judge(slurm, forms.asks(seed, count))


if __name__ == "__main__":
    sys.exit(main())
