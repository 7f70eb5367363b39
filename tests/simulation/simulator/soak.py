"""``python -m simulator.soak``: days of ordinary submissions, hour by hour, without faults.

The daemon, a filter and the store run on a simulated clock, so a day takes a minute or two. What is
older than an hour is pruned each hour. Descriptors, files and the store must be as large at the end
as after the second hour, and a submission must cost what it cost then. Memory must be as large as
after the eighth: until then the daemon's bounded caches fill, whose entries are shown as "kept".
"""

from __future__ import annotations

import argparse
import gc
import sys
import time

import psutil

from simulator.jobs import Job, Ledger
from simulator.machine import EPOCH_S
from simulator.run import Site
from simulator.slurm import Slurmctld

HOUR_S = 3_600.0
GROWTH_MIB = 4.0
SLOWER = 1.5
BEGUN, FULL = 2, 8
"""Hours after which all goes its usual way, and after which the daemon's caches have been full."""


class Forgetful(Ledger):
    """Keeps no job: what grows is then the product's."""

    def accept(self, job: Job, changed: dict[str, object], machine: object) -> None:
        """Nothing."""

    def confirm(self, job: Job) -> None:
        """Nothing."""


class Soak:
    """One host in peace."""

    def __init__(self, rate: float) -> None:
        self.site = Site(3, 10**9, hosts=1)
        self.world = self.site.world
        self.world.faults.on = False
        self.site.rate = rate
        daemon = self.site.daemons[0]
        self.daemon, self.machine = daemon, daemon.machine
        self.machine.clock_offset_s = 0.0
        self.filter = Slurmctld(self.machine, Forgetful())
        self.site.filters = [self.filter]
        self.world.spawn(self.site.admin, self.site.users)

    def hour(self) -> list[float]:
        """Submissions, stored decisions, MiB, descriptors, sockets, files, MiB of the store,
        microseconds of processor time a submission, and entries of the daemon's caches."""
        made, began_s = self.site.made, time.process_time()
        self.world.run(self.world.now_s + HOUR_S)
        used_s = time.process_time() - began_s
        core = self.daemon.core
        assert core is not None
        core.recorder._store.decisions.prune(EPOCH_S + self.world.now_s - HOUR_S)
        gc.collect()
        raw = self.site.database.raw
        pages = raw.execute("PRAGMA page_count").fetchone()[0]
        free = raw.execute("PRAGMA freelist_count").fetchone()[0]
        made = self.site.made - made
        return [
            made,
            raw.execute("SELECT count(*) FROM decisions").fetchone()[0],
            psutil.Process().memory_info().rss / 2**20,
            len(self.daemon.files[-1]._open),
            len(self.machine.ends),
            len(self.machine.disk.files),
            (pages - free) * 4_096 / 2**20,
            used_s / made * 1e6,
            self.kept(),
        ]

    def kept(self) -> int:
        """Entries of all that the daemon remembers of jobs, each bounded."""
        core = self.daemon.core
        assert core is not None
        remembered = (
            core.service.stats._latencies_us,
            core.service.site.decider.ranking,
            core.recorder._store.decisions._met,
        )
        return sum(map(len, remembered))


def main() -> int:
    """0: nothing grew."""
    options = argparse.ArgumentParser(prog="simulator.soak", description=__doc__)
    options.add_argument("--hours", type=int, default=24)
    options.add_argument("--rate", type=float, default=1.0, help="submissions a second")
    given = options.parse_args()
    soak = Soak(given.rate)
    heads = ("hour", "jobs", "stored", "MiB", "open", "sockets", "files", "store MiB", "us/job",
             "kept")  # fmt: skip
    print(" ".join(f"{head:>9}" for head in heads))
    rows = []
    for hour in range(1, given.hours + 1):
        rows.append(soak.hour())
        print(" ".join(f"{value:9.0f}" for value in (hour, *rows[-1])), flush=True)
        if soak.world.violations:
            print(soak.world.violations[0])
            return 1
    first, full = rows[min(BEGUN, len(rows)) - 1], rows[min(FULL, len(rows)) - 1]
    last = rows[-1]
    problems = [
        name
        for name, column, most in (
            ("memory", 2, full[2] + GROWTH_MIB),
            ("descriptors", 3, first[3] + 2),
            ("sockets", 4, first[4] + 2),
            ("files", 5, first[5] + 2),
            ("store", 6, 1.2 * first[6] + 1),
            ("time", 7, SLOWER * first[7]),
        )
        if last[column] > most
    ]
    print("grew: " + ", ".join(problems) if problems else "nothing grew")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
