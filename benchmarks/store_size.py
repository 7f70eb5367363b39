"""How fast commands read a large store, and how long pruning keeps others from writing.

``python benchmarks/store_size.py --rows 10000000``: so many decisions and outcomes of a year, in
SQLite or (``--store URL``) in an empty PostgreSQL database. Every command is started as a user
would. The bar: each under 2 s.
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
from dataclasses import replace
from pathlib import Path

from sqlalchemy import text

from berth.plugin.site.demo import DEMO_FILE
from berth.plugin.store import DecisionRecord, Store

BAR_S = 2.0
REQUEST = (
    '{"nodes":0,"tasks":8,"cpus_per_task":1,"gpus":0,"memory_bytes_per_node":null,'
    '"wants_placement":true,"pinned":[],"features":null,"gres":null,"qos":null,'
    '"time_limit_s":null,"size":null,"array_tasks":1,"allowed_queues":null}'
)
YEAR_S = 365 * 86_400.0
PIECE = 250_000
COLUMNS = """id, time_s, host, scheduler, "user", account, queue, profile, mode, action, code,
reason, chosen, bundle, policy, inputs_digest, latency_us, request, edits, ranked"""
DECISIONS = """
INSERT INTO decisions ({columns})
SELECT 'd' || n, {begin} + n * {step}, 'login-' || (n % 100), 'slurm', 'user-' || (n % 500),
  'account-' || (n % 50), 'auto', 'workload-' || (n % 300), 'enforce',
  CASE WHEN n % 3 = 0 THEN 'edit' ELSE 'keep' END,
  CASE WHEN n % 100000 = 1 THEN 'rare-code' WHEN n % 3 = 0 THEN 'placed' ELSE 'no-profile' END,
  'gpu is the fastest place that takes it', CASE WHEN n % 3 = 0 THEN 'gpu' END, 'bundle-1',
  'fastest', 'digest-' || (n % 10000), 80, '{request}',
  CASE WHEN n % 3 = 0 THEN '{edits}' ELSE '{{}}' END, '{ranked}'
FROM {numbers}
"""
OUTCOMES = """
INSERT INTO outcomes (cluster, job_id, decision, "user", queue, state, exit_status, submit_s,
  start_s, end_s, nodes, cores, time_limit_s, max_rss_bytes, elapsed_s, profile, bundle, candidate,
  platform, predicted_low_s, predicted_s, predicted_high_s)
SELECT 'tests', '' || n, 'd' || n, 'user-' || (n % 500), 'gpu', 'completed', 0,
  {begin} + n * {step}, {begin} + n * {step} + 60, {begin} + n * {step} + 660, 1, 8, 3600,
  2000000000, 400 + n * 7919 % 600, 'workload-' || (n % 300), 'bundle-1', 'gpu',
  CASE WHEN n % 5 = 0 THEN 'h200-141gb' ELSE 'a100-80gb' END, 400, 580, 900
FROM {numbers}
"""
RANKED = (
    '[{"candidate":"gpu","platform":"a100-80gb","score":1,"runtime_s":[400,580,900]},'
    '{"candidate":"cpu","platform":"rome-7742","score":2,"runtime_s":[800,1100,1600]}'
)


def fill(store: Store, rows: int, ranked_bytes: int) -> None:
    """A year of decisions, each with its outcome."""
    sqlite = store.database.path is not None
    begin, step = time.time() - YEAR_S, YEAR_S / rows
    for first in range(1, rows + 1, PIECE):
        last = min(rows, first + PIECE - 1)
        numbers = (
            f"(WITH RECURSIVE r(n) AS (SELECT {first} UNION ALL "  # noqa: S608 - our numbers
            f"SELECT n + 1 FROM r WHERE n < {last}) SELECT n FROM r) AS numbers"
            if sqlite
            else f"generate_series({first}, {last}) AS n"
        )
        with store.database.write() as connection:
            if not sqlite:
                connection.execute(text("SET LOCAL statement_timeout = 0"))
            for statement in (DECISIONS, OUTCOMES):
                connection.exec_driver_sql(
                    statement.format(
                        columns=COLUMNS, begin=begin, step=step, numbers=numbers,
                        request=REQUEST,
                        edits='{"queue":"gpu","gres":"gpu:a100:1"}',
                        ranked=RANKED + " " * (ranked_bytes - len(RANKED) - 1) + "]",
                    ).replace("%", "%%" if not sqlite else "%")
                )  # fmt: skip


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
    said = "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1][:60]
    return took_s, used_s, said


def commands(rows: int, site: Path) -> list[list[str]]:
    """All that read what grows. ``site``: a site file that names the store."""
    last = str(rows - 5)
    return [
        ["decisions", "--last", "20"],
        ["decisions", "--user", "user-7"],
        ["decisions", "--code", "rare-code"],
        ["decisions", "--profile", "workload-9"],
        ["decisions", "--job", last],
        ["decisions", "show", f"d{last}"],
        ["why", last],
        ["outcomes"],
        ["outcomes", "--days", "1"],
        ["outcomes", "--gain", "--against", "cpu"],
        ["report", "site", "--site", str(site)],
        ["serve", "--metrics", "--once", "--site", str(site)],
        ["report", "job", f"d{last}"],
        ["workload", "list"],
        ["learn"],
        ["doctor"],
    ]


def prune(store: Store) -> tuple[int, float, float]:
    """Rows deleted, how long it took, and the longest that another writer waited meanwhile."""
    (example,) = store.decisions.last(1)
    waits: list[float] = []
    over = threading.Event()

    def write() -> None:
        number = 0
        while not over.wait(0.02):
            number += 1
            began_s = time.monotonic()
            record: DecisionRecord = replace(example, id=f"w{number}", time_s=time.time())
            store.decisions.add([record])
            waits.append(time.monotonic() - began_s)

    writer = threading.Thread(target=write)
    writer.start()
    began_s = time.monotonic()
    count = store.decisions.prune(time.time() - 0.98 * YEAR_S)
    took_s = time.monotonic() - began_s
    over.set()
    writer.join()
    return count, took_s, max(waits, default=0.0)


def main() -> None:
    """Fill, measure, and print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--ranked-bytes", type=int, default=200, help="of each decision's ranking")
    options.add_argument("--store", help="an empty database; default: SQLite in a folder")
    options.add_argument("--folder", type=Path, help="for SQLite, removed afterwards")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        url = given.store or f"sqlite:///{folder}/store.db"
        store = Store.open(url)
        began_s = time.monotonic()
        fill(store, given.rows, given.ranked_bytes)
        size = "" if store.database.path is None else f", {_gb(store.database.path):.1f} GB"
        took_s = time.monotonic() - began_s
        print(f"{given.rows} decisions and outcomes{size}, filled in {took_s:.0f} s")
        site = Path(folder) / "site.toml"
        site.write_text(f'{DEMO_FILE.read_text()}\n[daemon]\nstore = "{url}"\n')
        print(f"{'command':36} {'wall s':>7} {'cpu s':>7}  bar {BAR_S:g} s")
        for words in commands(given.rows, site):
            took_s, used_s, said = timed(words, url)
            verdict = said or ("ok" if took_s < BAR_S else "over")
            line = " ".join(words).removesuffix(f" --site {site}")
            print(f"{line:36} {took_s:7.2f} {used_s:7.2f}  {verdict}", flush=True)
        count, took_s, longest_s = prune(store)
        print(
            f"prune: {count} decisions in {took_s:.1f} s; "
            f"another writer waited at most {longest_s * 1000:.0f} ms"
        )
        store.close()


def _gb(path: Path) -> float:
    return sum(p.stat().st_size for p in path.parent.glob(path.name + "*")) / 1e9


if __name__ == "__main__":
    main()
