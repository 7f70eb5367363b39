"""How fast ``berth serve`` answers, and how small it is, beside trivial servers in the same run.

Every server runs in a process of its own on one core, the client on another where there is one.
``rate`` is what came back in wall time; ``a core`` is what one core could do: requests divided by
the processor time that the server used (``/proc``), which a slow client cannot hide.

    python benchmarks/daemon.py [--requests 10000] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "support"))

from berth_daemon import wait_until  # noqa: E402
from daemon_bench.process import TICK_S, connected, processor_s, resident_mib  # noqa: E402
from daemon_bench.site import (  # noqa: E402
    CANDIDATES,
    forecasts,
    programs_site,
    request_line,
    site_text,
    started,
)

from berth.plugin.daemon.app import view  # noqa: E402
from berth.plugin.daemon.journal import Journal  # noqa: E402
from berth.plugin.daemon.record import Answered, record_of  # noqa: E402
from berth.plugin.daemon.recorder import BATCH  # noqa: E402
from berth.plugin.daemon.service import Keep, Record, Service  # noqa: E402
from berth.plugin.daemon.shelf import Shelf  # noqa: E402
from berth.plugin.daemon.view import Snapshot  # noqa: E402
from berth.plugin.site import load_site  # noqa: E402
from berth.plugin.store import Store  # noqa: E402
from berth.policies.values import CandidateState, QueueBounds  # noqa: E402

BAR_DECISION_US = 150.0
BAR_RATE = 5_000.0
BAR_READY_S = 1.0
BAR_RESIDENT_MIB = 120 * 1e6 / 2**20
KINDS = ("new", "sizes", "mix", "burst")
_CLIENTS = 16
CORES = os.sched_getaffinity(0)

PEERS = {
    "asyncio echo": """
import asyncio, sys
async def serve(reader, writer):
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_unix_server(serve, sys.argv[1], backlog=512)
    await server.serve_forever()
asyncio.run(main())
""",
    "threads echo": """
import socketserver, sys
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        while line := self.rfile.readline():
            self.wfile.write(line)
class Server(socketserver.ThreadingUnixStreamServer):
    request_queue_size = 512
    daemon_threads = True
Server(sys.argv[1], Echo).serve_forever()
""",
    "berth's loop, echo": """
import os, sys
from pathlib import Path
from berth.plugin.daemon.listener import Listener
from berth.plugin.daemon.server import Server
Server(Listener(Path(sys.argv[1])), lambda line: line + b"\\n", {os.geteuid()}).run()
""",
}


@dataclass(frozen=True)
class Row:
    """One server, one way of connecting."""

    server: str
    connection: str
    p50_us: float
    p99_us: float
    rate: float
    a_core: float


def service_of(folder: Path, record: Record, keep: Keep) -> Service:
    """A service over 20 candidates that knows seven programs."""
    (folder / "berth.toml").write_text(site_text(folder))
    site = load_site(folder / "berth.toml")
    service = Service(view(site), record, keep=keep)
    service.shelf = Shelf.of(forecasts())
    read_again(service)
    return service


def read_again(service: Service) -> None:
    """The same of every place, by another reading of the cluster."""
    states: Mapping[str, CandidateState] = MappingProxyType(
        {
            c.name: CandidateState(True, 64, 4, 0, time.time(), 8, bounds=QueueBounds())
            for c in service.site.decider.candidates
        }
    )
    service.snapshot = Snapshot(states, time.time(), time.monotonic())


def parts(requests: int, kind: str) -> tuple[float, float, float]:
    """Microseconds of processor time of one decision: to answer and journal it, to make its record,
    to store that; a reading of the cluster for every thousand, as at 1,000 a second."""
    recorded: list[Answered] = []
    spent = [0.0, 0.0, 0.0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        journal = Journal(folder / "journal")
        service = service_of(folder, recorded.append, journal.write)
        store = Store.open(folder / "store.db")
        for begin in range(0, requests, BATCH):
            read_again(service)
            lines = [request_line(n, kind)[:-1] for n in range(begin, begin + BATCH)]
            recorded.clear()
            moments = [time.process_time()]
            for line in lines:
                service.handle(line)
            moments.append(time.process_time())
            records = [record_of(answered, "host") for answered in recorded]
            moments.append(time.process_time())
            store.decisions.add(records)
            moments.append(time.process_time())
            for part, (before, after) in enumerate(pairwise(moments)):
                spent[part] += after - before
        store.close()
        journal.close(remove=True)
    answer, record, stored = (1e6 * one / requests for one in spent)
    return answer, record, stored


def inside(requests: int, kind: str) -> tuple[float, float]:
    """Median and p99 microseconds from line to line within the process, over 20 candidates."""
    with tempfile.TemporaryDirectory() as name:
        service = service_of(Path(name), lambda _: None, lambda *_: None)
    lines = [request_line(n, kind)[:-1] for n in range(requests)]
    assert json.loads(service.handle(lines[0]))["action"] == "edit"
    spent = []
    for line in lines:
        start = time.perf_counter_ns()
        service.handle(line)
        spent.append((time.perf_counter_ns() - start) / 1e3)
    return statistics.median(spent), statistics.quantiles(spent, n=100)[98]


def one_by_one(path: str, lines: list[bytes], *, keep_open: bool) -> list[float]:
    """Microseconds of each exchange, one at a time: what a single submission waits."""
    spent = []
    kept = connected(path) if keep_open else None
    for line in lines:
        start = time.perf_counter_ns()
        peer = kept or connected(path)
        peer.sendall(line)
        while not peer.recv(65536).endswith(b"\n"):
            pass
        if kept is None:
            peer.close()
        spent.append((time.perf_counter_ns() - start) / 1e3)
    if kept is not None:
        kept.close()
    return spent


def many_at_once(path: str, lines: list[bytes], *, keep_open: bool) -> float:
    """Exchanges a second with 16 clients at once."""
    poll = select.epoll()
    peers: dict[int, socket.socket] = {}
    waiting = iter(lines)

    def begin(peer: socket.socket | None) -> None:
        line = next(waiting, None)
        if line is None:
            if peer is not None:
                poll.unregister(peer)
                peers.pop(peer.fileno()).close()
            return
        if peer is None:
            peer = connected(path)
            peers[peer.fileno()] = peer
            poll.register(peer, select.EPOLLIN)
        peer.sendall(line)

    start = time.perf_counter()
    for _ in range(_CLIENTS):
        begin(None)
    while peers:
        for fd, _mask in poll.poll():
            peer = peers[fd]
            if not peer.recv(65536).endswith(b"\n"):
                continue
            if keep_open:
                begin(peer)
            else:
                poll.unregister(peer)
                peers.pop(fd).close()
                begin(None)
    return len(lines) / (time.perf_counter() - start)


def measure(name: str, pid: int, path: str, lines: list[bytes]) -> Iterator[Row]:
    """Both ways of connecting."""
    for connection, keep_open in (("each anew", False), ("kept open", True)):
        many_at_once(path, lines[:500], keep_open=keep_open)
        before = processor_s(pid)
        rate = many_at_once(path, lines, keep_open=keep_open)
        used = processor_s(pid) - before
        spent = one_by_one(path, lines[: len(lines) // 4], keep_open=keep_open)
        yield Row(
            name,
            connection,
            statistics.median(spent),
            statistics.quantiles(spent, n=100)[98],
            rate,
            len(lines) / max(used, TICK_S),
        )


@contextmanager
def peer_daemon(source: str) -> Iterator[tuple[int, str]]:
    """A trivial server in its own process: its pid and socket."""
    with tempfile.TemporaryDirectory(prefix="berth-") as folder:
        path = f"{folder}/peer.sock"
        process = subprocess.Popen([sys.executable, "-c", source, path])
        on_core(0, process.pid)
        try:
            wait_until(lambda: Path(path).exists() and answers(path), what="the peer")
            yield process.pid, path
        finally:
            process.kill()
            process.wait()


def answers(path: str) -> bool:
    """Whether something accepts connections there."""
    with contextlib.suppress(OSError):
        connected(path).close()
        return True
    return False


def on_core(index: int, pid: int = 0) -> None:
    """Bind a process (0: this one) and the threads it has to one of the machine's cores."""
    cores = sorted(CORES)
    threads = [int(t.name) for t in Path(f"/proc/{pid}/task").iterdir()] if pid else [0]
    for thread in threads:
        os.sched_setaffinity(thread, {cores[index % len(cores)]})


def main() -> None:
    """Measure and print the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--requests", type=int, default=10_000)
    options.add_argument("--json", type=Path)
    arguments = options.parse_args()
    decisions = {kind: inside(min(arguments.requests, 10_000), kind) for kind in KINDS}
    for kind in KINDS:
        answer, record, stored = parts(min(arguments.requests, 10_000), kind)
        print(
            f"{kind}: processor time of a decision: answer and journal {answer:.0f} us, "
            f"record {record:.0f} us, store {stored:.0f} us"
        )
    rows: list[Row] = []
    with programs_site() as (site, commands):
        starts = []
        for _ in range(5):
            start = time.perf_counter()
            daemon = site.start(state=False, path=commands)
            starts.append(time.perf_counter() - start)
            daemon.stop()
        daemon = started(site, commands)
        on_core(0, daemon.pid)
        on_core(1)
        first = json.loads(one_answer(str(site.socket), request_line(0, "new")))
        assert first["action"] == "edit", first
        for kind in KINDS:
            lines = [request_line(n, kind) for n in range(arguments.requests)]
            rows += measure(f"berth serve, {kind}", daemon.pid, str(site.socket), lines)
            wait_until(lambda: daemon.stats()["recorder"]["queued"] == 0, 60, "the recorder")
        status = daemon.stats()
        resident = resident_mib(daemon.pid)
        recorder = daemon.stats()["recorder"]
    lines = [request_line(n, "mix") for n in range(arguments.requests)]
    for name, source in PEERS.items():
        with peer_daemon(source) as (pid, path):
            rows += measure(name, pid, path, lines)
    show(rows, decisions, starts, resident)
    print(f"in the daemon, as it counts itself: {status['latency_us']}; recorder: {recorder}")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


def one_answer(path: str, line: bytes) -> bytes:
    """The reply to one line."""
    with connected(path) as peer:
        peer.sendall(line)
        reply = b""
        while not reply.endswith(b"\n"):
            reply += peer.recv(65536)
        return reply


def show(
    rows: list[Row],
    decisions: Mapping[str, tuple[float, float]],
    starts: list[float],
    resident: float,
) -> None:
    """The tables, each bar with its verdict."""

    def verdict(met: bool) -> str:
        return "met" if met else "missed"

    print(
        f"{'server':<25}{'connection':<12}{'p50 us':>8}{'p99 us':>9}{'rate/s':>9}{'a core/s':>10}"
    )
    for row in rows:
        print(
            f"{row.server:<25}{row.connection:<12}{row.p50_us:>8.0f}{row.p99_us:>9.0f}"
            f"{row.rate:>9.0f}{row.a_core:>10.0f}"
        )
    print()
    for kind, (p50, p99) in decisions.items():
        print(
            f"decision over {CANDIDATES} candidates, {kind}: p50 {p50:.0f} us, p99 {p99:.0f} us   "
            f"bar {BAR_DECISION_US:.0f} us: {verdict(p50 <= BAR_DECISION_US)}"
        )
    for row in rows:
        if row.server.startswith("berth serve"):
            print(
                f"{row.server.removeprefix('berth serve, ')}, {row.connection}: {row.a_core:.0f} "
                f"decisions a second on a core   bar {BAR_RATE:.0f}: "
                f"{verdict(row.a_core >= BAR_RATE)}"
            )
    ready_s = statistics.median(starts)
    print(
        f"start to ready: median {ready_s:.2f} s, best {min(starts):.2f} s   "
        f"bar {BAR_READY_S:.0f} s: {verdict(ready_s <= BAR_READY_S)}\n"
        f"resident: {resident:.0f} MiB   bar {BAR_RESIDENT_MIB:.0f} MiB: "
        f"{verdict(resident <= BAR_RESIDENT_MIB)}"
    )


if __name__ == "__main__":
    main()
