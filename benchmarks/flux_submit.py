"""What Berth's frobnicator costs Flux: submit rates on four brokers beside the stock frobnicators.

A private instance of four brokers on this machine, jobs submitted asynchronously on all of them in
turn and held. Bursts with Berth before the stock frobnicators (a real `berth serve`), and with that
daemon stopped (SIGSTOP) after the breakers have opened, each between two bursts with the stock
frobnicators alone. The bar is on the median of the ratios to the mean of those two; the quartiles
say how far that can be trusted. The processor time of all that takes part, by job, is what a busy
machine does not change.

Then many submissions while the daemon is killed (SIGKILL) after every 2 s of service and started
again: each job is compared with the one that was submitted, each change with its recorded decision.
Needs `flux` on PATH.

    python benchmarks/flux_submit.py [--rounds 5] [--count 1000] [--submissions 10000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "flux"), str(ROOT / "tests" / "support")]

from burst_check import Verdict, submit, verify  # noqa: E402
from flux_daemon import FluxHarbour, flux_harbour  # noqa: E402
from flux_instance import LiveFlux, frobnicators, live_flux, why_no_flux  # noqa: E402

from berth.pilot.errors import BerthError  # noqa: E402
from berth.plugin.flux.filter import FILTER_PATH  # noqa: E402

BAR_BERTH = 0.80
BAR_HUNG = 0.70
BAR_START_MS = 60.0
WARM_UP = 300
KILL_EVERY_S = 2.0
REFRESH_S = 15.0
"""Between two readings of the instance's state: the default."""
PROFILES = ("stream", "serial", "small", None)


class Bench:
    """One instance and one daemon; numbers its jobs so that none comes twice."""

    def __init__(self, flux: LiveFlux, harbour: FluxHarbour) -> None:
        self.flux, self.harbour = flux, harbour
        self.berth = frobnicators(str(FILTER_PATH), **harbour.settings())
        self._next = 0

    def burst(self, count: int) -> dict[str, Any]:
        """Submit ``count`` jobs for the auto queue; AssertionError where one is refused."""
        first, self._next = self._next, self._next + count
        found = submit(self.flux, count, first=first, queue="auto", workloads=PROFILES)
        assert not found["errors"], next(iter(found["errors"].values()))
        return found

    def rate(self, ingest: str, count: int) -> Rate:
        """Submissions a second with that configuration, its workers warm."""
        self.flux.configure(ingest)
        self.burst(WARM_UP)
        before_s = self.processor_s()
        seconds = float(self.burst(count)["seconds"])
        return Rate(count / seconds, 1000 * (self.processor_s() - before_s) / count)

    def processor_s(self) -> float:
        """Spent so far by the instance's processes and the daemon."""
        pids = {self.harbour.daemons[-1].pid}
        for process in psutil.process_iter():
            with suppress(ProcessLookupError):
                if os.getsid(process.pid) == self.flux.process.pid:
                    pids.add(process.pid)
        spent_s = 0.0
        for pid in pids:
            with suppress(psutil.NoSuchProcess):
                times = psutil.Process(pid).cpu_times()
                spent_s += times.user + times.system
        return spent_s


class Rate(NamedTuple):
    """What one burst gave."""

    per_s: float
    processor_ms: float
    """A job."""


def rates(bench: Bench, rounds: int, count: int) -> dict[str, list[float]]:
    """By kind, one rate a round; ``stock`` has one more on either side of each other burst."""
    daemon = bench.harbour.daemons[-1]
    found: dict[str, list[float]] = {}

    def burst(kind: str) -> None:
        rate = bench.rate(frobnicators() if kind == "stock" else bench.berth, count)
        found.setdefault(kind, []).append(rate.per_s)
        found.setdefault(f"{kind} processor ms", []).append(rate.processor_ms)

    burst("stock")
    for turn in range(rounds):
        for kind in ("berth", "hung")[:: 1 if turn % 2 else -1]:
            if kind == "hung":
                os.kill(daemon.pid, signal.SIGSTOP)
            try:
                burst(kind)
            finally:
                os.kill(daemon.pid, signal.SIGCONT)
            burst("stock")
            around = statistics.fmean(found["stock"][-2:])
            found.setdefault(f"{kind} ratio", []).append(found[kind][-1] / around)
    return found


def starts_ms(bench: Bench, pairs: int) -> dict[str, list[float]]:
    """From the start of a worker to its first answer, by kind."""
    job = bench.flux.submit("--urgency=0", "true")
    line = json.dumps(bench.flux.jobspec(job)) + "\n"
    settings = {"stock": frobnicators(), "berth": bench.berth}
    plugins = {
        "stock": "defaults,constraints",
        "berth": f"{FILTER_PATH},defaults,constraints",
    }
    found: dict[str, list[float]] = {"stock": [], "berth": []}
    bench.flux.configure(settings["berth"])
    for turn in range(pairs):
        for kind in list(found)[:: 1 if turn % 2 else -1]:
            started = time.perf_counter()
            bench.flux.run(
                "job-frobnicator", "--jobspec-only", f"--plugins={plugins[kind]}", stdin=line
            )
            found[kind].append(1000 * (time.perf_counter() - started))
    return found


@contextmanager
def killed_every(harbour: FluxHarbour, seconds: float) -> Iterator[list[int]]:
    """SIGKILL the daemon ``seconds`` after it answers and start it anew, again and again.

    The list grows by the pid of each that was killed.
    """
    pids: list[int] = []
    ending = threading.Event()

    def run() -> None:
        while not ending.wait(seconds):
            last = harbour.daemons[-1]
            last.stop(signal.SIGKILL)
            pids.append(last.pid)
            fresh = harbour.start(wait=False)
            while not ending.is_set():
                try:
                    fresh.ask(op="ping")
                    break
                except BerthError:
                    ending.wait(0.05)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield pids
    finally:
        ending.set()
        thread.join()


def under_fire(bench: Bench, count: int) -> tuple[Verdict, int, float, float]:
    """The verdict on ``count`` submissions, kills, seconds, and the slowest submission."""
    bench.flux.configure(bench.berth)
    with killed_every(bench.harbour, KILL_EVERY_S) as pids:
        found = bench.burst(count)
    bench.harbour.daemons[-1].stop(signal.SIGKILL)
    last = bench.harbour.start()
    last.stop()  # writes down what it brought in
    store = bench.harbour.store()
    verdict = verify(bench.flux, found["ids"], store, "auto")
    return verdict, len(pids), found["seconds"], found["slowest_s"]


def measure(rounds: int, count: int, submissions: int, pairs: int) -> dict[str, Any]:
    with flux_harbour() as harbour, live_flux(frobnicators()) as flux:
        harbour.uri = flux.uri
        harbour.write_site(refresh_s=REFRESH_S)
        harbour.start()
        bench = Bench(flux, harbour)
        found = rates(bench, rounds, count)
        stats = harbour.daemons[-1].stats()
        starts = starts_ms(bench, pairs)
        verdict, kills, seconds, slowest = under_fire(bench, submissions)
        version = flux.run("version").split()[1]
    kinds = ("berth", "hung")
    return {
        "flux": version,
        "rounds": found,
        "rate_per_s": {kind: statistics.median(found[kind]) for kind in ("stock", *kinds)},
        "processor_ms": {
            kind: statistics.median(found[f"{kind} processor ms"]) for kind in ("stock", *kinds)
        },
        "ratio": {kind: statistics.quantiles(found[f"{kind} ratio"], n=4) for kind in kinds},
        "answered": stats["counts"].get("decisions", 0) / (rounds * (count + WARM_UP)),
        "start_ms": {kind: statistics.median(values) for kind, values in starts.items()},
        "under_fire": {
            "submitted": submissions,
            "accepted": verdict.accepted,
            "kills": kills,
            "seconds": seconds,
            "slowest_s": slowest,
            "wrong": verdict.wrong[:10],
            "codes": dict(verdict.codes),
        },
    }


def table(found: dict[str, Any]) -> str:
    """The figures beside their bars."""
    fire, start, rate = found["under_fire"], found["start_ms"], found["rate_per_s"]
    ratio = found["ratio"]
    added = start["berth"] - start["stock"]
    codes = fire["codes"]
    rows = [
        ("stock frobnicators", f"{rate['stock']:.0f} jobs/s", ""),
        ("with Berth", f"{rate['berth']:.0f} jobs/s, {_spread(ratio['berth'])}",
         f">= {BAR_BERTH:.0%}"),
        ("  answered by the daemon", f"{found['answered']:.0%} of the jobs", ""),
        ("daemon hung, breakers open", f"{rate['hung']:.0f} jobs/s, {_spread(ratio['hung'])}",
         f">= {BAR_HUNG:.0%}"),
        ("processor time of a job",
         " / ".join(f"{found['processor_ms'][k]:.2f}" for k in ("stock", "berth", "hung"))
         + " ms stock / Berth / hung", ""),
        ("start of a worker", f"{start['stock']:.0f} ms + {added:.0f} ms",
         f"<= + {BAR_START_MS:.0f} ms"),
        (f"killed {fire['kills']} times", f"{fire['accepted']} of {fire['submitted']} accepted",
         "all"),
        ("  swapped, lost, unexplained", f"{len(fire['wrong'])}", "0"),
        ("  placed / kept / untouched",
         " / ".join(str(codes.get(k, 0)) for k in ("placed", "kept", "untouched")), ""),
        ("  slowest submission", f"{fire['slowest_s']:.2f} s", ""),
    ]  # fmt: skip
    lines = [f"flux-core {found['flux']}, 4 brokers on this machine"]
    lines += [f"{name:<30}{value:<36}{bar}" for name, value, bar in rows]
    return "\n".join(lines + fire["wrong"])


def _spread(quartiles: Sequence[float]) -> str:
    low, middle, high = quartiles
    return f"{middle:.0%} ({low:.0%} to {high:.0%})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 also where there is no Flux, with a sentence that says so."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--submissions", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    reason = why_no_flux()
    if reason is not None:
        print(f"not measured: {reason}")
        return 0
    try:
        found = measure(options.rounds, options.count, options.submissions, options.pairs)
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        print(f"could not measure: {error}", file=sys.stderr)
        return 1
    print(table(found))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
