"""What learning costs the daemon's answers: the same requests in turns, with and without.

``learnt``: every forecast is one that finished jobs moved, a user's own. ``history``: besides, keys
and memory needs of past jobs, of which the requests match none (the most look-ups).
``berth jobs learn beside``: all that, while ``berth jobs learn --rebuild`` runs at low priority as
the daemon starts it, stopped in every second block. Last: processor time and
memory of that ``berth jobs learn``.

    python benchmarks/learning.py [--blocks 20]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "support")]

from berth_daemon import forecast  # noqa: E402
from daemon_bench.site import request_line, site_text  # noqa: E402
from decide import bytecodes  # noqa: E402
from site_jobs import CPU, SiteJobs  # noqa: E402
from site_jobs import forecast as program  # noqa: E402

from berth.plugin.daemon.app import view  # noqa: E402
from berth.plugin.daemon.service import Service  # noqa: E402
from berth.plugin.daemon.shelf import Attached, Shelf  # noqa: E402
from berth.plugin.daemon.view import Snapshot  # noqa: E402
from berth.plugin.site import load_site  # noqa: E402
from berth.plugin.store import Store  # noqa: E402
from berth.plugin.store.records import MemoryNeedRecord  # noqa: E402
from berth.policies.values import CandidateState  # noqa: E402

REQUESTS = 100
"""Of a block."""
PROGRAMS, JOBS = 20, 1_000


def services(folder: Path) -> dict[str, Service]:
    """Three daemons' insides that differ in what was learnt."""
    (folder / "berth.toml").write_text(site_text(folder))
    site = load_site(folder / "berth.toml")
    made = [forecast(f"program{n}", cpu_s=600.0 + n) for n in range(7)]
    plain = Shelf.of(made)
    packed = {name: plain._packed[name] for name in plain.names}
    learnt = {(name, f"user{n}"): data for name, data in packed.items() for n in range(50)}
    keys = {(f"sha256:{n:064d}", f"user{n % 50}"): Attached("program1", None) for n in range(5_000)}
    needs = {
        f"sha256:{n:064d}": MemoryNeedRecord(f"sha256:{n:064d}", "user1", 1, 3, 0, 2, 0.0)
        for n in range(5_000)
    }
    shelves = {
        "no learning": plain,
        "learnt": Shelf(1, plain.names, packed, learnt=learnt),
        "learnt, history": Shelf(1, plain.names, packed, keys, learnt=learnt, memory_needs=needs),
    }
    states: Mapping[str, CandidateState] = MappingProxyType(
        {c.name: CandidateState(True, 64, 4, 0, time.time(), 8) for c in site.candidates}
    )
    found = {}
    for name, shelf in shelves.items():
        found[name] = Service(view(site), lambda _: None)
        found[name].shelf = shelf
        found[name].snapshot = Snapshot(states, time.time(), time.monotonic())
    return found


def block_us(service: Service, kind: str, first: int) -> list[float]:
    """Microseconds of each answer, by processor time: others' work does not count."""
    lines = [request_line(first + n, kind)[:-1] for n in range(REQUESTS)]
    spent = []
    for line in lines:
        start = time.thread_time_ns()
        service.handle(line)
        spent.append((time.thread_time_ns() - start) / 1e3)
    return spent


def filled(folder: Path) -> str:
    """A store of finished jobs of one user."""
    url = f"sqlite:///{folder}/learn.db"
    store = Store.open(url)
    jobs = SiteJobs(store)
    for n in range(PROGRAMS):
        jobs.workload(program(f"app{n}", {CPU: 100.0, "lassen-v100": 30.0}))
    begin_s = time.time() - 86_400.0
    for n in range(JOBS):
        jobs.job(f"app{n % PROGRAMS}", 100.0 + n % 17, at_s=begin_s + 60.0 * n)
    store.close()
    return url


def learner(url: str) -> subprocess.Popen[bytes]:
    """As the daemon starts it."""
    code = "import sys; from berth.plugin.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "jobs", "learn", "--rebuild", "--json", "--store", url]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(["nice", "-n", "10", *command], env=environment, stdout=-3)


def held_kib(pid: int) -> int:
    """The most memory that a process held so far; 0: it has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(x.split()[1]) for x in text.splitlines() if x.startswith("VmHWM")), 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=20)
    blocks = parser.parse_args().blocks
    with tempfile.TemporaryDirectory() as name:
        made = services(Path(name))
        url = filled(Path(name))
        print(f"load {os.getloadavg()[0]:.1f}; processor microseconds of an answer, medians of")
        print(f"{blocks} blocks of {REQUESTS} in turns\n")
        print("| requests | what the daemon knows | p50 us | bytecodes |\n|---|---|---|---|")
        for kind in ("burst", "mix", "new"):
            spent: dict[str, list[float]] = {what: [] for what in made}
            for block in range(blocks):
                for what, service in made.items():
                    spent[what] += block_us(service, kind, block * REQUESTS)
            for what, service in made.items():
                steps = bytecodes(
                    lambda n, s=service, k=kind: s.handle(request_line(10**6 + n, k)[:-1])
                )
                print(f"| {kind} | {what} | {statistics.median(spent[what]):.0f} | {steps:.0f} |")
        running, stopped = [], []
        child = learner(url)
        for block in range(2 * blocks):
            beside = block % 2 == 0
            child.send_signal(signal.SIGCONT if beside else signal.SIGSTOP)
            if child.poll() is not None:
                break
            service = made["learnt, history"]
            (running if beside else stopped).extend(block_us(service, "mix", 10**5 + block))
        child.send_signal(signal.SIGCONT)
        peak_kib = 0
        while child.poll() is None:
            peak_kib = max(peak_kib, held_kib(child.pid))
            time.sleep(0.1)
        if running and stopped:
            print(
                f"| mix | berth jobs learn beside, or stopped | {statistics.median(running):.0f}, "
                f"{statistics.median(stopped):.0f} | |"
            )
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(
            json.dumps(
                {
                    "berth jobs learn --rebuild": f"{JOBS} jobs of {PROGRAMS} programs",
                    "processor_s": round(used.ru_utime + used.ru_stime, 1),
                    "memory_mib": round(peak_kib / 1024),
                }
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
