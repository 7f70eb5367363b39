"""``make differential``: thousands of jobs at random, each with and without Berth, on real Slurms.

Goes on where it was stopped: each batch is a line of the report. Prints each difference with its
seed, and the share of jobs that Berth really moved, by option.

    PYTHONPATH=tests/slurm:tests/support python -m slurm_differential.run --pairs 5000
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from accounting_database import DatabaseUnavailable, require_database
from differential.report import add, batch_row, seeds_left, summary
from slurm_differential.cases import WORLDS
from slurm_differential.options import asks, option_names
from slurm_differential.pairs import judge
from slurm_differential.worlds import World, open_world

BATCH = 80
COMMANDS = ("sbatch", "srun", "salloc")


def main() -> int:
    """The exit status: 0 without a difference, 1 with one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--report", type=Path, default=Path("report/differential/slurm.jsonl"))
    parser.add_argument("--world", help="only this one")
    options = parser.parse_args()
    worlds = {w.name: w for w in _possible() if options.world in (None, w.name)}
    left = seeds_left(
        options.report,
        list(worlds),
        pairs=options.pairs,
        batch=options.batch,
        first=options.first_seed,
    )
    for name, seeds in left.items():
        if seeds:
            _in_world(worlds[name], seeds, options.batch, options.report)
    return summary(options.report)


def _possible() -> list[World]:
    """The worlds that this machine can have."""
    try:
        require_database()
    except DatabaseUnavailable as missing:
        print(f"no world with accounts: {missing}", flush=True)
        return [world for world in WORLDS if world.accounting is None]
    return list(WORLDS)


def _in_world(world: World, seeds: list[int], batch: int, report: Path) -> None:
    with open_world(world) as slurm:
        names = {command: option_names(slurm, command) for command in COMMANDS}
        for seed in seeds:
            begun = time.monotonic()
            found = judge(slurm, asks(seed, batch, names))
            add(report, batch_row(world.name, seed, found, begun))


if __name__ == "__main__":
    sys.exit(main())
