"""``python -m simulator``: worlds one after another until so many submissions were made."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

from simulator.faults import POINTS
from simulator.run import SUBMISSIONS, simulate

PAIRS = tuple((point, kind) for point, kinds in POINTS.items() for kind in kinds)
AIMED_AT = 8
"""Rare faults of one world that is run for them."""
WITH = {
    "spool": {"weather.database": "down", "weather.disk": "full"},
    "spool.truncate": {"weather.database": "down", "spool.write": "short"},
    "journal": {"weather.daemon": "kill"},
}
"""What else a world needs so that a call, or calls of a role, are made at all."""


def aimed(rare: Sequence[tuple[str, str]], seed: int) -> dict[str, str]:
    """Some of the rare faults, for a world to be full of."""
    drawn = Random(seed).sample(rare, min(AIMED_AT, len(rare)))
    found = dict(drawn)
    for point in list(found):
        found = WITH.get(point, WITH.get(point.partition(".")[0], {})) | found
    return found


def words(focus: Mapping[str, str]) -> str:
    """The options that give a world this focus."""
    return "".join(f" --focus {point}={kind}" for point, kind in sorted(focus.items()))


def main() -> int:
    """0: every invariant held. 1: a seed is printed that reproduces what did not."""
    options = argparse.ArgumentParser(prog="simulator", description=__doc__)
    options.add_argument("--seed", type=int, default=1, help="of the first world")
    options.add_argument("--count", type=int, default=20_000, help="submissions in all")
    options.add_argument("--world", type=int, default=SUBMISSIONS, help="submissions of a world")
    options.add_argument("--hosts", type=int, help="login hosts of each world")
    options.add_argument("--least", type=int, default=0, help="hits of each fault point wanted")
    options.add_argument(
        "--most", type=float, default=2.0, help="times --count, for worlds full of rare faults"
    )
    options.add_argument(
        "--focus", action="append", default=[], metavar="POINT=KIND", help="what fails often"
    )
    options.add_argument("--table", action="store_true", help="print every fault point")
    given = options.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"  # the order of sets is part of what a seed decides
        os.execv(sys.executable, [sys.executable, "-m", "simulator", *sys.argv[1:]])  # noqa: S606
    gc.set_threshold(50_000, 20, 20)
    asked = dict(one.split("=", 1) for one in given.focus)
    faults: Counter[tuple[str, str]] = Counter()
    counts: Counter[str] = Counter()
    made, seed = 0, given.seed
    began_s = time.process_time()
    rare = list(PAIRS)
    while made < given.count or (rare and made < given.most * given.count):
        count = min(given.world, given.count - made) if made < given.count else given.world
        focus = asked or (aimed(rare, seed) if made >= given.count else {})
        result = simulate(seed, count, given.hosts, focus)
        made += result.submissions
        faults += result.faults
        counts += result.counts
        if result.violations:
            print(f"seed {seed}: {result.violations[0]}")
            hosts = f" --hosts {given.hosts}" if given.hosts else ""
            world = f" --world {given.world}" if given.world != SUBMISSIONS else ""
            print(f"reproduce: python -m simulator --seed {seed} --count {count}"
                  f"{world}{hosts}{words(focus)}")  # fmt: skip
            return 1
        seed += 1
        rare = [pair for pair in PAIRS if faults[pair] < given.least]
    took_s = time.process_time() - began_s
    if given.table:
        for point, kind in PAIRS:
            print(f"{point:22} {kind:10} {faults[point, kind]:8}")
    for name, count in sorted(counts.items()):
        print(f"{name}: {count}")
    print(
        f"{made} submissions, {seed - given.seed} worlds, {sum(faults.values())} faults at "
        f"{len(PAIRS)} points: no invariant was broken; {made / took_s:.0f} submissions/s "
        "of processor time"
    )
    if rare:
        print("too few: " + ", ".join(f"{p} {k} {faults[p, k]}" for p, k in rare))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
