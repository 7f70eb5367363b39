"""``python -m simulator``: worlds one after another until so many submissions were made."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections import Counter

from simulator.faults import POINTS
from simulator.run import SUBMISSIONS, simulate


def main() -> int:
    """0: every invariant held. 1: a seed is printed that reproduces what did not."""
    options = argparse.ArgumentParser(prog="simulator", description=__doc__)
    options.add_argument("--seed", type=int, default=1, help="of the first world")
    options.add_argument("--count", type=int, default=20_000, help="submissions in all")
    options.add_argument("--world", type=int, default=SUBMISSIONS, help="submissions of a world")
    options.add_argument("--hosts", type=int, help="login hosts of each world")
    options.add_argument("--least", type=int, default=0, help="hits of each fault point wanted")
    options.add_argument("--table", action="store_true", help="print every fault point")
    given = options.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"  # the order of sets is part of what a seed decides
        os.execv(sys.executable, [sys.executable, "-m", "simulator", *sys.argv[1:]])  # noqa: S606
    gc.set_threshold(50_000, 20, 20)
    faults: Counter[tuple[str, str]] = Counter()
    counts: Counter[str] = Counter()
    made, seed = 0, given.seed
    began_s = time.process_time()
    while made < given.count:
        count = min(given.world, given.count - made)
        result = simulate(seed, count, given.hosts)
        made += result.submissions
        faults += result.faults
        counts += result.counts
        if result.violations:
            print(f"seed {seed}: {result.violations[0]}")
            hosts = f" --hosts {given.hosts}" if given.hosts else ""
            world = f" --world {given.world}" if given.world != SUBMISSIONS else ""
            print(f"reproduce: python -m simulator --seed {seed} --count {count}"
                  f"{world}{hosts}")  # fmt: skip
            return 1
        seed += 1
    took_s = time.process_time() - began_s
    pairs = [(point, kind) for point, kinds in POINTS.items() for kind in kinds]
    rare = [pair for pair in pairs if faults[pair] < given.least]
    if given.table:
        for point, kind in pairs:
            print(f"{point:22} {kind:10} {faults[point, kind]:8}")
    for name, count in sorted(counts.items()):
        print(f"{name}: {count}")
    print(
        f"{made} submissions, {seed - given.seed} worlds, {sum(faults.values())} faults at "
        f"{len(pairs)} points: no invariant was broken; {made / took_s:.0f} submissions/s "
        "of processor time"
    )
    if rare:
        print("too few: " + ", ".join(f"{p} {k} {faults[p, k]}" for p, k in rare))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
