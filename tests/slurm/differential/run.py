"""``make differential``: thousands of jobs at random, each with and without Berth, on real Slurms.

Goes on where it was stopped: each batch is a line of the report. Prints each difference with its
seed, and the share of jobs that Berth really moved, by option.

    PYTHONPATH=tests/slurm:tests/support python -m differential.run --pairs 5000
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from accounting_database import DatabaseUnavailable
from differential.cases import WORLDS
from differential.options import asks, option_names
from differential.pairs import Verdict, judge
from differential.worlds import World, open_world
from slurm_cluster import Cluster

BATCH = 40
COMMANDS = ("sbatch", "srun", "salloc")


def main() -> int:
    """The exit status: 0 without a difference, 1 with one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--report", type=Path, default=Path("report/differential/slurm.jsonl"))
    parser.add_argument("--world", help="only this one")
    options = parser.parse_args()
    options.report.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["world"], row["seed"]) for row in _rows(options.report)}
    worlds = [w for w in WORLDS if options.world in (None, w.name)]
    batches = -(-options.pairs // BATCH)
    for index, world in enumerate(worlds):
        seeds = [options.first_seed + b for b in range(batches) if b % len(worlds) == index]
        left = [seed for seed in seeds if (world.name, seed) not in done]
        if left:
            _in_world(world, left, options.report)
    return _summary(options.report)


def _in_world(world: World, seeds: list[int], report: Path) -> None:
    try:
        with open_world(world) as slurm:
            names = {command: option_names(slurm, command) for command in COMMANDS}
            for seed in seeds:
                begun = time.monotonic()
                row = _batch(slurm, world, seed, names)
                row["seconds"] = round(time.monotonic() - begun, 1)
                with report.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                for one in row["differences"]:
                    print(f"DIFFERENCE {world.name} seed {seed}: {one}", flush=True)
                print(f"{world.name} seed {seed}: {row['edited']}/{row['accepted']}", flush=True)
    except DatabaseUnavailable as missing:
        print(f"world {world.name} skipped: {missing}", flush=True)


def _batch(
    slurm: Cluster, world: World, seed: int, names: dict[str, dict[str, str]]
) -> dict[str, object]:
    verdicts = judge(slurm, asks(seed, BATCH, names))
    taken = [v for v in verdicts if v.plain.accepted]
    return {
        "world": world.name,
        "seed": seed,
        "pairs": len(verdicts),
        "accepted": len(taken),
        "edited": sum(v.placed.was_edited for v in taken),
        "differences": [str(v) for v in verdicts if v.differences],
        "options": [
            [option, v.placed.was_edited, v.placed.code] for v in taken for option in _options(v)
        ],
    }


def _options(verdict: Verdict) -> Iterator[str]:
    for word in verdict.ask.words:
        if word.startswith("--"):
            yield word.partition("=")[0]


def _rows(report: Path) -> list[dict[str, object]]:
    if not report.exists():
        return []
    return [json.loads(line) for line in report.read_text().splitlines() if line.strip()]


def _summary(report: Path) -> int:
    rows = _rows(report)
    pairs, accepted, edited = (sum(r[k] for r in rows) for k in ("pairs", "accepted", "edited"))
    print(f"\n{pairs} pairs, {accepted} accepted as written, {edited} moved by Berth")
    asked: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    codes: dict[str, Counter[str]] = {}
    for row in rows:
        for option, was_edited, code in row["options"]:
            asked[option] += 1
            moved[option] += was_edited
            codes.setdefault(option, Counter())[code] += 1
    for option in sorted(asked):
        most = ", ".join(f"{code} {n}" for code, n in codes[option].most_common(3))
        print(f"  {option:22} {moved[option]:4}/{asked[option]:<4} moved   {most}")
    found = [one for row in rows for one in row["differences"]]
    print(f"{len(found)} differences")
    for one in found:
        print(f"  {one}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
