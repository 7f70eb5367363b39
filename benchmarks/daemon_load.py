"""How much ``berth serve`` takes from 64 clients at once, and how long they wait.

Two kinds of requests, over kept connections to a daemon with its store, both sharing the machine's
cores with the clients: shapes seen before (as loops around ``sbatch`` send them) and problem sizes
never seen. Of each, first in a closed loop (each client sends its next request when it has its
answer), then in an open one: requests come at random moments (Poisson) at half the rate of the
bar (of the closed loop, where that missed the bar), and one that finds all connections in use waits
for one, which counts. Beside it: what
programs wait that only read the clock, one on each core (a shared machine stalls them, too).

    python benchmarks/daemon_load.py [--clients 64] [--seconds 60] [--warm 100000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import socket
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "support"))

from berth_daemon import RunningDaemon, wait_until  # noqa: E402
from daemon_bench.process import connected, processor_s, resident_mib  # noqa: E402
from daemon_bench.site import programs_site, request_line, started  # noqa: E402
from daemon_bench.stalls import stalled_ms  # noqa: E402

BARS = {"seen shapes": 8_000.0, "new problem sizes": 5_000.0}
"""Decisions a second."""
BAR_GROWTH_MB = 2.0
BAR_P99_MS = 5.0
KINDS = {"seen shapes": "burst", "new problem sizes": "sizes"}
_STALLS_S = 20.0
_SLEEP_S = 0.2
"""The longest wait of the clients' loop."""


@dataclass(frozen=True)
class Row:
    """One kind of requests, one way of sending them."""

    kind: str
    loop: str
    seconds: float
    answered: int
    rate: float
    processor_us: float
    """Of the daemon, for one decision, what it stores included."""
    p50_ms: float
    p99_ms: float
    longest_ms: float
    growth_mb: float
    """Of the daemon's resident memory, from the first to the last request, once all is stored."""
    load: float


class Clients:
    """Connections that wait for answers, by their descriptor."""

    def __init__(self, path: str, count: int) -> None:
        self._poll = select.epoll()
        self._peers: dict[int, socket.socket] = {}
        self._sent_s: dict[int, float] = {}
        self.free: list[int] = []
        for _ in range(count):
            peer = connected(path)
            self._peers[peer.fileno()] = peer
            self._poll.register(peer, select.EPOLLIN)
            self.free.append(peer.fileno())

    @property
    def waiting(self) -> int:
        """Those that have no answer yet."""
        return len(self._sent_s)

    def send(self, line: bytes, counted_from_s: float) -> None:
        """By a free connection; its wait counts from that moment."""
        number = self.free.pop()
        self._sent_s[number] = counted_from_s
        self._peers[number].sendall(line)

    def answers(self, at_most_s: float) -> Iterator[float]:
        """Milliseconds of each request that is answered by then; their connections are free."""
        for number, _event in self._poll.poll(at_most_s):
            reply = self._peers[number].recv(65536)
            if not reply:
                raise ConnectionError("the daemon closed a connection")
            if not reply.endswith(b"\n"):
                continue
            self.free.append(number)
            yield 1e3 * (time.perf_counter() - self._sent_s.pop(number))

    def close(self) -> None:
        """End them all."""
        self._poll.close()
        for peer in self._peers.values():
            peer.close()


def closed_loop(clients: Clients, lines: Iterator[bytes], seconds: float) -> list[float]:
    """Milliseconds of each answer; every client sends the next as soon as it has one."""
    spent: list[float] = []
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        while clients.free:
            clients.send(next(lines), time.perf_counter())
        spent.extend(clients.answers(_SLEEP_S))
    while clients.waiting:
        spent.extend(clients.answers(_SLEEP_S))
    return spent


def open_loop(clients: Clients, lines: Iterator[bytes], seconds: float, rate: float) -> list[float]:
    """Milliseconds of each answer from the moment its request was due, at random moments."""
    moments = random.Random(1)  # noqa: S311 - arrivals, the same in each run
    spent: list[float] = []
    due: deque[float] = deque()
    began_s = time.perf_counter()
    next_s, end_s = began_s + moments.expovariate(rate), began_s + seconds
    while True:
        now_s = time.perf_counter()
        while next_s <= min(now_s, end_s):
            due.append(next_s)
            next_s += moments.expovariate(rate)
        while due and clients.free:
            clients.send(next(lines), due.popleft())
        if now_s > end_s and not due and not clients.waiting:
            return spent
        wait_s = min(_SLEEP_S, max(0.0, next_s - now_s)) if next_s <= end_s else _SLEEP_S
        spent.extend(clients.answers(wait_s))


def measured(
    daemon: RunningDaemon,
    clients: Clients,
    kind: str,
    loop: str,
    send: Callable[[Clients], list[float]],
) -> Row:
    """One row; ``clients`` are closed afterwards."""
    wait_until(lambda: daemon.stats()["recorder"]["queued"] == 0, 120, "the recorder")
    memory_mib, used_s = resident_mib(daemon.pid), processor_s(daemon.pid)
    began_s = time.perf_counter()
    spent = send(clients)
    clients.close()
    took_s = time.perf_counter() - began_s
    wait_until(lambda: daemon.stats()["recorder"]["queued"] == 0, 120, "the recorder")
    return Row(
        kind,
        loop,
        took_s,
        len(spent),
        len(spent) / took_s,
        1e6 * (processor_s(daemon.pid) - used_s) / len(spent),
        statistics.median(spent),
        statistics.quantiles(spent, n=100)[98],
        max(spent),
        (resident_mib(daemon.pid) - memory_mib) * 2**20 / 1e6,
        os.getloadavg()[0],
    )


def requests_of(kind: str, first: int) -> Iterator[bytes]:
    """Request lines without end; a few thousand are made beforehand where they come again."""
    if kind == "burst":
        again = [request_line(n, kind) for n in range(5)]
        while True:
            yield from again
    # A line is made by replacing its number, as making JSON costs what is to be measured.
    templates = [request_line(n, kind).replace(b"@%d" % (1000 + n), b"@%d") for n in range(700)]
    number = first
    while True:
        number += 1
        yield templates[number % 700] % (1000 + number)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--warm", type=int, default=100_000, help="requests of each kind that fill bounded caches"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[Row] = []
    with programs_site() as (site, commands):
        daemon = started(site, commands)
        path = str(site.socket)
        print(
            f"{'requests':<19}{'loop':<8}{'a second':>10}{'daemon us':>11}{'p50 ms':>9}"
            f"{'p99 ms':>9}{'longest':>9}{'growth MB':>11}{'load':>6}"
        )
        sources = {kind: requests_of(KINDS[kind], 0) for kind in KINDS}
        clients = Clients(path, options.clients)
        for lines in sources.values():
            for _ in range(0, options.warm, options.clients):
                while clients.free:
                    clients.send(next(lines), time.perf_counter())
                while clients.waiting:
                    list(clients.answers(_SLEEP_S))
        clients.close()
        for kind, lines in sources.items():
            row = measured(
                daemon, Clients(path, options.clients), kind, "closed",
                lambda clients, lines=lines: closed_loop(clients, lines, options.seconds),
            )  # fmt: skip
            rows.append(shown(row))
            half = min(row.rate, BARS[kind]) / 2
            row = measured(
                daemon, Clients(path, options.clients), kind, "open",
                lambda clients, lines=lines, rate=half: open_loop(
                    clients, lines, options.seconds, rate
                ),
            )  # fmt: skip
            rows.append(shown(row))
    print(f"the machine's own stalls, without Berth: p99 {stalled_ms(_STALLS_S):.2f} ms")
    verdicts(rows)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


def shown(row: Row) -> Row:
    """The row, printed."""
    print(
        f"{row.kind:<19}{row.loop:<8}{row.rate:>10.0f}{row.processor_us:>11.0f}"
        f"{row.p50_ms:>9.2f}{row.p99_ms:>9.2f}{row.longest_ms:>9.1f}"
        f"{row.growth_mb:>11.2f}{row.load:>6.1f}",
        flush=True,
    )
    return row


def verdicts(rows: list[Row]) -> None:
    """Each bar with what was found."""

    def say(what: str, found: str, bar: str, *, met: bool) -> None:
        print(f"{what}: {found}   bar {bar}: {'met' if met else 'missed'}")

    for row in rows:
        if row.loop == "closed":
            bar = BARS[row.kind]
            say(row.kind, f"{row.rate:.0f} decisions a second", f"{bar:.0f}", met=row.rate >= bar)
            say(
                f"{row.kind}, growth", f"{row.growth_mb:.2f} MB", f"{BAR_GROWTH_MB:g} MB",
                met=row.growth_mb < BAR_GROWTH_MB,
            )  # fmt: skip
        else:
            say(
                f"{row.kind}, open loop", f"p99 {row.p99_ms:.2f} ms", f"{BAR_P99_MS:g} ms",
                met=row.p99_ms <= BAR_P99_MS,
            )  # fmt: skip


if __name__ == "__main__":
    main()
