"""``make differential-flux``: random jobs, each with and without Berth, on real Flux instances.

Goes on where it was stopped: each batch is a line of the report. Prints each difference with its
seed, and the share of jobs that Berth really moved, by option.

    PYTHONPATH=tests/flux:tests/support python -m flux_differential.run --pairs 2000
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from differential.report import add, batch_row, seeds_left, summary
from flux_differential.options import asks, option_names
from flux_differential.pairs import judge
from flux_differential.worlds import WORLDS, World, open_world
from flux_instance import why_no_flux

BATCH = 50


def main() -> int:
    """The exit status: 0 without a difference, 1 with one, 2 where there is no Flux."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--report", type=Path, default=Path("report/differential/flux.jsonl"))
    parser.add_argument("--world", help="only this one")
    options = parser.parse_args()
    if (missing := why_no_flux()) is not None:
        print(missing, file=sys.stderr)
        return 2
    worlds = {w.name: w for w in WORLDS if options.world in (None, w.name)}
    left = seeds_left(
        options.report, list(worlds), pairs=options.pairs, batch=BATCH, first=options.first_seed
    )
    for name, seeds in left.items():
        if seeds:
            _in_world(worlds[name], seeds, options.report)
    return summary(options.report)


def _in_world(world: World, seeds: list[int], report: Path) -> None:
    with open_world(world) as flux:
        names = option_names(flux)
        for seed in seeds:
            begun = time.monotonic()
            found = judge(flux, asks(seed, BATCH, names, auto=world.auto))
            add(report, batch_row(world.name, seed, found, begun))


if __name__ == "__main__":
    sys.exit(main())
