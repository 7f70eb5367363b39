"""How fast commands read a large store, and how long pruning keeps others from writing.

``python benchmarks/store_size.py --rows 10000000``: so many decisions and outcomes of a
year (``store_bench.year``), in SQLite or (``--store URL``) in an empty PostgreSQL database. Every
command is started as a user would. The bar: each under 2 s. The table is one of Markdown.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from store_bench.year import DENSE_SHARE, YEAR_S, fill

from berth.plugin.site.load import DEMO_FILE
from berth.plugin.store import Store

BAR_S = 2.0
WAIT_BAR_S = 1.0
WRITTEN_EVERY_S = 0.05
PRUNED_SHARE = 0.1


def timed(words: list[str], url: str) -> tuple[float, float, str]:
    """Wall and processor seconds of a command, and how it ended."""
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    program = "import sys; from berth.plugin.cli import main; main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, "BERTH_STORE": url},
        capture_output=True,
        text=True,
        check=False,
    )
    took_s, after = time.monotonic() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    failed = done.returncode != 0 and done.stderr.strip()  # doctor: 1 where no daemon runs
    said = failed.splitlines()[-1][:60] if failed else ""
    return took_s, used_s, said


def commands(rows: int, site: Path) -> list[list[str]]:
    """All that read what grows. ``site``: a site file that names the store."""
    last, of_site = str(rows - 5), ["--site", str(site)]
    return [
        ["jobs", "decisions", "--last", "20"],
        ["jobs", "decisions", "--user", "user-0"],
        ["jobs", "decisions", "--user", "user-7"],
        ["jobs", "decisions", "--code", "rare-code"],
        ["jobs", "decisions", "--workload", "workload-9"],
        ["jobs", "decisions", "--user", "user-0", "--code", "rare-code"],
        ["jobs", "decisions", "--user", "user-0", "--workload", "workload-9"],
        ["jobs", "decisions", "--code", "placed", "--workload", "workload-10"],
        ["jobs", "decisions", "--user", "user-0", "--code", "placed", "--workload", "workload-10"],
        ["jobs", "decisions", last],
        ["jobs", "decisions", f"d{last}"],
        ["why", last],
        ["ui", "report", "job", f"d{last}"],
        ["jobs", "outcomes"],
        ["jobs", "outcomes", "--days", "1"],
        ["jobs", "outcomes", "--jobs"],
        ["jobs", "gain"],
        ["ui", "report", "site", *of_site],
        ["site", "metrics", "--once", *of_site],
        ["workload", "list"],
        ["jobs", "learn"],
        ["site", "doctor", *of_site],
    ]


@dataclass(frozen=True)
class Pruned:
    """What pruning did while another wrote and a third one asked."""

    rows: int
    took_s: float
    waited_s: float
    """The longest that a write took."""
    answered_s: float
    """The longest that a question took."""


def prune(store: Store) -> Pruned:
    """Delete the oldest tenth of the decisions, with 20 others stored each second."""
    (example,) = store.decisions.last(1)
    waits: list[float] = []
    answers: list[float] = []
    over = threading.Event()

    def write(number: int) -> None:
        fresh = replace(example, id=f"w{number}-{time.time()}", time_s=time.time())
        store.decisions.add([fresh])

    def repeat(act: Callable[[int], object], took: list[float]) -> None:
        while not over.wait(WRITTEN_EVERY_S):
            began_s = time.monotonic()
            act(len(took))
            took.append(time.monotonic() - began_s)

    others = [
        threading.Thread(target=repeat, args=(write, waits)),
        threading.Thread(target=repeat, args=(lambda _: store.decisions.last(20), answers)),
    ]
    for other in others:
        other.start()
    began_s = time.monotonic()
    old_s = PRUNED_SHARE / (1 - DENSE_SHARE) * (YEAR_S * (1 - 30 / 365))
    count = store.decisions.prune((store.decisions.first_s() or 0.0) + old_s)
    took_s = time.monotonic() - began_s
    over.set()
    for other in others:
        other.join()
    return Pruned(count, took_s, max(waits, default=0.0), max(answers, default=0.0))


def measure(store: Store, url: str, rows: int, folder: Path) -> None:
    """Print the table, then what pruning does."""
    site = folder / "site.toml"
    site.write_text(f'{DEMO_FILE.read_text()}\n[daemon]\nstore = "{url}"\n')
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print(f"| command | wall s | processor s | bar {BAR_S:g} s |\n|---|---|---|---|")
    for words in commands(rows, site):
        took_s, used_s, said = timed(words, url)
        verdict = said or ("holds" if took_s < BAR_S else "over")
        line = " ".join(words).removesuffix(f" --site {site}")
        print(f"| `berth {line}` | {took_s:.1f} | {used_s:.1f} | {verdict} |", flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f}")
    done = prune(store)
    verdict = "holds" if done.waited_s < WAIT_BAR_S else "over"
    print(
        f"prune: {done.rows} decisions in {done.took_s:.0f} s, {done.rows / done.took_s:.0f} a "
        f"second; "
        f"another writer waited at most {done.waited_s * 1000:.0f} ms (bar {WAIT_BAR_S:g} s: "
        f"{verdict}), a reader {done.answered_s * 1000:.0f} ms"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--ranked-bytes", type=int, default=200, help="of each decision's ranking")
    options.add_argument("--store", help="an empty database; default: SQLite in a folder")
    options.add_argument("--filled", action="store_true", help="the database holds the rows")
    options.add_argument("--folder", type=Path, help="for SQLite, removed afterwards")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        url = given.store or f"sqlite:///{folder}/store.db"
        store = Store.open(url)
        if not given.filled:
            began_s = time.monotonic()
            fill(store, given.rows, given.ranked_bytes)
            print(f"filled in {time.monotonic() - began_s:.0f} s")
        size = "" if store.database.path is None else f", {_gb(store.database.path):.1f} GB"
        print(f"{given.rows} decisions and outcomes{size}")
        measure(store, url, given.rows, Path(folder))
        store.close()


def _gb(path: Path) -> float:
    return sum(p.stat().st_size for p in path.parent.glob(path.name + "*")) / 1e9


if __name__ == "__main__":
    main()
