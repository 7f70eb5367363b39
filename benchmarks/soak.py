"""Whether ``berth serve`` stays as it is for an hour of submissions: real daemon, store, socket.

Submissions come at a modest rate over one kept connection, as a filter's do, from fifty users with
shapes known and new. Each minute a forecast is made anew; every five minutes ``berth site store
prune`` deletes what is older than ``--keep`` minutes. Before the first minute the
daemon's bounded caches are filled, so that what grows afterwards grows without end.

    python benchmarks/soak.py [--minutes 60] [--rate 8] [--warm 40000] [--json FILE]

Exit status 1 where the last ten minutes differ from the first ten: memory, descriptors, threads,
files, the store's used pages, processor time of a decision. Latency in wall time is printed beside
the machine's load and judged by the processor time, which other programs do not lengthen.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sqlite3
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "support"))

from berth_daemon import Harbour, RunningDaemon, forecast, wait_until  # noqa: E402
from daemon_bench.process import connected, processor_s  # noqa: E402
from daemon_bench.site import PROGRAMS, programs_site, request_line, started  # noqa: E402
from made_forecasts import put  # noqa: E402

BERTH = (sys.executable, "-c", "from berth.plugin.cli import main; main()")
MINUTE_S = 60.0
ALTERNATIVES = (
    "SELECT coalesce(sum(s.pgsize), 0) FROM dbstat AS s JOIN sqlite_schema AS t USING (name) "
    "WHERE t.tbl_name = 'rankings'"
)
"""Bytes of the table's pages and of its indexes'."""
EDGE_MINUTES = 10
"""So many minutes at the beginning are compared with as many at the end."""
PRUNE_EVERY = 5
NEW_EVERY = 5
"""Every fifth submission has a shape never seen before."""
MOST = {
    "memory_mib": (1.0, 2.0), "descriptors": (1.0, 2.0), "threads": (1.0, 1.0),
    "files": (1.0, 2.0), "store_mib": (1.1, 1.0), "processor_us": (1.3, 20.0),
}  # fmt: skip
"""What the end may be of the beginning: a factor, and so much more."""


@dataclass(frozen=True)
class Minute:
    """What a minute came to."""

    minute: int
    submissions: int
    memory_mib: float
    descriptors: int
    threads: int
    files: int
    store_mib: float
    """Of its used pages, without the alternatives that came more than once: those are kept for a
    day after their last decision, so that an hour shows no end of them."""
    alternatives_mib: float
    wal_mib: float
    processor_us: float
    p50_us: float
    p99_us: float
    slowest_ms: float
    unanswered: int
    load: float


class Submitter:
    """Sends one line after another, keeps the connection, counts what is not answered in time."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._peer: socket.socket | None = None
        self.sent = 0

    def submit(self) -> float | None:
        """Seconds until the answer; None: there was none within a second."""
        self.sent += 1
        kind = "new" if self.sent % NEW_EVERY == 0 else "mix"
        line = request_line(self.sent, kind)
        begun = time.perf_counter()
        try:
            if self._peer is None:
                self._peer = connected(self._path)
                self._peer.settimeout(1.0)
            self._peer.sendall(line)
            answer = b""
            while not answer.endswith(b"\n"):
                part = self._peer.recv(65_536)
                if not part:
                    raise ConnectionResetError
                answer += part
        except OSError:
            if self._peer is not None:
                self._peer.close()
            self._peer = None
            return None
        return time.perf_counter() - begun


class Soak:
    """A daemon under submissions, minute by minute."""

    def __init__(self, site: Harbour, daemon: RunningDaemon, rate: float, keep: float) -> None:
        self.site, self.daemon, self.rate, self.keep = site, daemon, rate, keep
        self.submitter = Submitter(site.socket)
        self._minutes = 0

    def warm(self, submissions: int) -> None:
        """As fast as they are answered, in shares that the recorder keeps up with."""
        for number in range(submissions):
            self.submitter.submit()
            if number % 5_000 == 4_999:
                wait_until(lambda: self.daemon.stats()["recorder"]["queued"] == 0, 120)

    def minute(self) -> Minute:
        """One minute of submissions, then what the daemon and the store have come to."""
        self._minutes += 1
        put(self.site.store(), forecast(f"program{self._minutes % PROGRAMS}", 600 + self._minutes))
        if self._minutes % PRUNE_EVERY == 0:
            self.prune()
        sent, used = self.submitter.sent, processor_s(self.daemon.pid)
        taken: list[float] = []
        unanswered = 0
        began = time.monotonic()
        due = began
        while due < began + MINUTE_S:
            time.sleep(max(0.0, due - time.monotonic()))
            took = self.submitter.submit()
            if took is None:
                unanswered += 1
            else:
                taken.append(took)
            due += 1 / self.rate
        return self._looked_at(sent, used, taken, unanswered)

    def prune(self) -> None:
        """Delete old decisions as an administrator's timer does, while submissions go on."""
        days = str(self.keep / (24 * 60))
        subprocess.run(
            [*BERTH, "site", "store", "prune", "--older-than-days", days,
             "--site", self.site.site_file],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def _looked_at(self, sent: int, used: float, taken: list[float], unanswered: int) -> Minute:
        pid, made = self.daemon.pid, self.submitter.sent - sent
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        )
        store = self.site.folder / "store.db"
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as reader:
            pages, free, size = (
                reader.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
            alternatives = reader.execute(ALTERNATIVES).fetchone()[0]
        wal = store.with_name("store.db-wal")
        wal_bytes = wal.stat().st_size if wal.exists() else 0
        return Minute(
            minute=self._minutes,
            submissions=made,
            memory_mib=int(status["VmRSS"].split()[0]) / 1024,
            descriptors=len(os.listdir(f"/proc/{pid}/fd")),  # noqa: PTH208 - names, not paths
            threads=int(status["Threads"]),
            files=sum(path.is_file() for path in self.site.folder.rglob("*")),
            store_mib=((pages - free) * size - alternatives) / 2**20,
            alternatives_mib=alternatives / 2**20,
            wal_mib=wal_bytes / 2**20,
            processor_us=1e6 * (processor_s(pid) - used) / max(1, made),
            p50_us=1e6 * statistics.median(taken),
            p99_us=1e6 * statistics.quantiles(taken, n=100)[98],
            slowest_ms=1e3 * max(taken),
            unanswered=unanswered,
            load=os.getloadavg()[0],
        )


def edges(rows: list[Minute]) -> tuple[Minute, Minute]:
    """The medians of the first minutes and of the last."""
    count = min(EDGE_MINUTES, max(1, len(rows) // 2))

    def middle(part: list[Minute]) -> Minute:
        return Minute(**{f.name: statistics.median(getattr(r, f.name) for r in part)
                         for f in fields(Minute)})  # fmt: skip

    return middle(rows[:count]), middle(rows[-count:])


def grown(first: Minute, last: Minute) -> list[str]:
    """What was larger at the end than it may be."""
    return [
        name
        for name, (factor, more) in MOST.items()
        if getattr(last, name) > factor * getattr(first, name) + more
    ]


def written(row: Minute) -> str:
    """A line of the table."""
    return " ".join(f"{getattr(row, f.name):>12.6g}" for f in fields(Minute))


def main() -> int:
    """0: flat."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=int, default=60)
    options.add_argument("--rate", type=float, default=8.0, help="submissions a second")
    options.add_argument("--warm", type=int, default=40_000, help="submissions before the first")
    options.add_argument("--keep", type=float, default=5.0, help="minutes of decisions kept")
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    rows: list[Minute] = []
    with programs_site() as (site, commands):
        daemon = started(site, commands)
        soak = Soak(site, daemon, given.rate, given.keep)
        soak.warm(given.warm)
        time.sleep(min(MINUTE_S, 60 * given.keep) if given.warm else 0)
        soak.prune()
        print(" ".join(f"{f.name:>12}" for f in fields(Minute)), flush=True)
        for _ in range(given.minutes):
            rows.append(soak.minute())
            print(written(rows[-1]), flush=True)
        recorder = daemon.stats()["recorder"]
    first, last = edges(rows)
    print(f"first ten minutes\n{written(first)}\nlast ten minutes\n{written(last)}")
    problems = grown(first, last)
    if recorder["dropped"] or recorder["problem"]:
        problems.append(f"the recorder: {recorder}")
    if unanswered := sum(row.unanswered for row in rows):
        print(f"{unanswered} of {sum(r.submissions for r in rows)} had no answer within a second")
    print("not flat: " + ", ".join(problems) if problems else "flat")
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
