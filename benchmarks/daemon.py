"""How long ``berth serve`` keeps a submission waiting, and how small it is.

Requests come to a daemon with its store at random moments (Poisson, 200 a second: more than any
scheduler submits) over connections that are kept; each chooses among 40 candidates. Four kinds:
shapes seen before (a loop around ``sbatch``), fifty users' mix, shapes never seen, problem sizes
never seen. Bar: p99 at most 2 ms. Client and daemon share the machine; beside it stands what
programs wait that only read the clock, one on each core.

    python benchmarks/daemon.py [--rate 200] [--seconds 30] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import select
import socket
import statistics
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "support"))

from berth_daemon import RunningDaemon, wait_until  # noqa: E402
from daemon_bench.process import connected, processor_s, resident_mib  # noqa: E402
from daemon_bench.site import CANDIDATES, programs_site, request_line, started  # noqa: E402
from daemon_bench.stalls import stalled_ms  # noqa: E402

BAR_P99_MS = 2.0
BAR_READY_S = 1.0
BAR_RESIDENT_MIB = 120.0
BAR_GROWTH_MB = 2.0
KINDS = {
    "burst": "shapes seen before",
    "mix": "fifty users' mix",
    "new": "shapes never seen",
    "sizes": "problem sizes never seen",
}
_CONNECTIONS = 16
_STARTS = 5
_WARM_UP = 2_000
"""Requests of each kind that fill the bounded memory before anything is measured."""
_SLEEP_S = 0.2
"""The longest wait of the clients' loop."""


@dataclass(frozen=True)
class Row:
    """How long one kind of requests waited, and what it cost the daemon."""

    kind: str
    answered: int
    processor_us: float
    """The daemon spent so much on one decision, what it stores included."""
    p50_ms: float
    p99_ms: float
    longest_ms: float
    growth_mb: float
    """The daemon's resident memory grew so much from the first to the last request, all stored."""


class Connections:
    """Connections to the daemon, and since when each waits for an answer."""

    def __init__(self, path: str) -> None:
        self._poll = select.epoll()
        self._peers: dict[int, socket.socket] = {}
        self._due_s: dict[int, float] = {}
        self._free: list[int] = []
        for _ in range(_CONNECTIONS):
            peer = connected(path)
            self._peers[peer.fileno()] = peer
            self._poll.register(peer, select.EPOLLIN)
            self._free.append(peer.fileno())

    def waits_ms(self, lines: deque[bytes], rate: float) -> list[float]:
        """Send all lines at random moments; what each waited from the moment it was due."""
        moments = random.Random(1)  # noqa: S311 - arrivals, the same in each run
        waits: list[float] = []
        due: deque[float] = deque()
        next_s, to_come = time.perf_counter(), len(lines)
        while lines or self._due_s:
            now_s = time.perf_counter()
            while to_come and next_s <= now_s:
                due.append(next_s)
                to_come -= 1
                next_s += moments.expovariate(rate)
            while due and self._free:
                number = self._free.pop()
                self._due_s[number] = due.popleft()
                self._peers[number].sendall(lines.popleft())
            pause_s = min(_SLEEP_S, max(0.0, next_s - now_s)) if to_come else _SLEEP_S
            for number, _event in self._poll.poll(pause_s):
                if not self._peers[number].recv(65536).endswith(b"\n"):
                    raise ConnectionError("the daemon closed a connection or sent half a line")
                self._free.append(number)
                waits.append(1e3 * (time.perf_counter() - self._due_s.pop(number)))
        return waits


def measured(
    daemon: RunningDaemon, connections: Connections, kind: str, *, rate: float, seconds: float
) -> Row:
    """Send one kind of requests for so long."""
    count = int(rate * seconds)
    warm_up = deque(request_line(n, kind) for n in range(_WARM_UP))
    connections.waits_ms(warm_up, 10 * rate)
    lines = deque(request_line(n, kind) for n in range(_WARM_UP, _WARM_UP + count))
    wait_until(lambda: daemon.stats()["recorder"]["queued"] == 0, 120, "the recorder")
    memory_mib, used_s = resident_mib(daemon.pid), processor_s(daemon.pid)
    waits = connections.waits_ms(lines, rate)
    wait_until(lambda: daemon.stats()["recorder"]["queued"] == 0, 120, "the recorder")
    return Row(
        KINDS[kind],
        len(waits),
        1e6 * (processor_s(daemon.pid) - used_s) / len(waits),
        statistics.median(waits),
        statistics.quantiles(waits, n=100)[98],
        max(waits),
        (resident_mib(daemon.pid) - memory_mib) * 2**20 / 1e6,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    with programs_site() as (site, commands):
        starts_s = []
        for _ in range(_STARTS):
            began_s = time.perf_counter()
            daemon = site.start(state=False, path=commands)
            starts_s.append(time.perf_counter() - began_s)
            daemon.stop()
        daemon = started(site, commands)
        connections = Connections(str(site.socket))
        print(f"{options.rate:.0f} requests a second, {CANDIDATES} candidates")
        print("| requests | answered | daemon us | p50 ms | p99 ms | longest ms | growth MB |")
        print("|---|---|---|---|---|---|---|")
        for kind in KINDS:
            row = measured(daemon, connections, kind, rate=options.rate, seconds=options.seconds)
            rows.append(row)
            print(
                f"| {row.kind} | {row.answered} | {row.processor_us:.0f} | {row.p50_ms:.2f} "
                f"| {row.p99_ms:.2f} | {row.longest_ms:.1f} | {row.growth_mb:.2f} |",
                flush=True,
            )
        resident = resident_mib(daemon.pid)
    print(f"the machine's own stalls, without Berth: p99 {stalled_ms(5.0):.2f} ms")
    ready_s = statistics.median(starts_s)
    for what, value, bar, unit in (
        *((f"{row.kind}, p99", row.p99_ms, BAR_P99_MS, "ms") for row in rows),
        *((f"{row.kind}, growth", row.growth_mb, BAR_GROWTH_MB, "MB") for row in rows),
        ("start to ready", ready_s, BAR_READY_S, "s"),
        ("resident", resident, BAR_RESIDENT_MIB, "MiB"),
    ):
        verdict = "met" if value <= bar else "missed"
        print(f"{what}: {value:.2f} {unit}   bar {bar:g} {unit}: {verdict}")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


if __name__ == "__main__":
    main()
