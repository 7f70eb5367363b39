"""How long the page's views take over a large store, as a browser asks for them.

``python benchmarks/page.py --rows 200000``: a store of so many decisions of a year
(``store_bench.year``), ``berth ui`` in a process of its own, each view asked for as the first of a
new page and then ``--repeats`` times more. The bars: overview and Site 1 s, jobs 0.2 s, at 200,000
decisions. The table is one of Markdown.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from store_bench.year import fill

from berth.plugin.site.load import DEMO_FILE
from berth.plugin.store import Store

BARS_S = {
    "overview": 1.0,
    "site": 1.0,
    "jobs": 0.2,
    "jobs?user=user-0": 0.2,
    "jobs?user=user-7&code=placed": 0.2,
    "jobs?partition=gpu": 0.2,
    "jobs.csv?user=user-7": 0.2,
}


def asked_s(address: str) -> float:
    """Return the seconds until the whole answer is there."""
    began_s = time.monotonic()
    with urllib.request.urlopen(address, timeout=120) as answer:  # noqa: S310 - our own page
        answer.read()
    return time.monotonic() - began_s


def times_of(view: str, words: list[str], repeats: int) -> tuple[float, list[float]]:
    """Return the first time of a view in a page that has shown nothing yet, and those after it."""
    page = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert page.stdout is not None
        line = next(line for line in page.stdout if "http://" in line)
        address = "http://" + line.split("http://")[1].split()[0].rstrip("/")
        first_s = asked_s(f"{address}/{view}")
        return first_s, [asked_s(f"{address}/{view}") for _ in range(repeats)]
    finally:
        page.terminate()
        page.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    program = "import sys; from berth.plugin.cli import main; main(sys.argv[1:])"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "berth.db"
        store = Store.open(str(path))
        fill(store, options.rows, 1_000)
        store.close()
        words = [sys.executable, "-c", program, "ui", "--no-token", "--site", str(DEMO_FILE)]
        print("| view | first, s | then, s (median) | bar, s | |\n|---|---|---|---|---|")
        for view, bar_s in BARS_S.items():
            first_s, later = times_of(view, [*words, "--store", str(path)], options.repeats)
            then_s = statistics.median(later)
            verdict = "met" if max(first_s, then_s) <= bar_s else "missed"
            print(f"| {view} | {first_s:.2f} | {then_s:.2f} | {bar_s} | {verdict} |", flush=True)


if __name__ == "__main__":
    main()
