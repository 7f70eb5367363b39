"""A year of a large site in a store: decisions, outcomes and learnt workloads.

Harder than evenly spread: four in five jobs are of the last 30 days (ten times as dense as the
year), and one user, ``user-0``, has 30 % of all.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from sqlalchemy import text

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from site_jobs import SiteJobs, forecast

from berth.pilot.progress import steps
from berth.plugin.store import Store

DAY_S = 86_400.0
YEAR_S = 365 * DAY_S
DENSE_DAYS, DENSER = 30, 10
DENSE_SHARE = DENSER * DENSE_DAYS / 365
WORKLOADS = 300
PIECE = 250_000
REQUEST = (
    '{"nodes":0,"tasks":8,"cpus_per_task":1,"gpus":0,"memory_bytes_per_node":null,'
    '"wants_placement":true,"pinned":[],"features":null,"gres":null,"qos":null,'
    '"time_limit_s":null,"size":null,"array_tasks":1,"allowed_queues":null}'
)
EDITS = '{"queue":"gpu","gres":"gpu:a100:1"}'
RANKED = (
    '[{"candidate":"gpu","platform":"a100-80gb","score":1,"runtime_s":[400,580,900]},'
    '{"candidate":"cpu","platform":"rome-7742","score":2,"runtime_s":[800,1100,1600]}'
)
USER = "CASE WHEN n % 10 < 3 THEN 'user-0' ELSE 'user-' || (1 + n % 499) END"
PLATFORM = "CASE WHEN n % 5 = 0 THEN 'h200-141gb' ELSE 'a100-80gb' END"
RUNTIME_S = "400 + n * 7919 % 601"
JOBS = (
    """
INSERT INTO decisions (id, time_s, host, scheduler, "user", account, queue, workload, mode, action,
  code, reason, chosen, bundle, policy, inputs_digest, latency_us, request, edits, ranked)
SELECT 'd' || n, {time_s}, 'login-' || (n % 100), 'slurm', {user}, 'account-' || (n % 50), 'auto',
  'workload-' || (n % {workloads}), 'enforce', CASE WHEN n % 3 = 0 THEN 'edit' ELSE 'keep' END,
  CASE WHEN n % 100000 = 1 THEN 'rare-code' WHEN n % 3 = 0 THEN 'placed' ELSE 'no-workload' END,
  'gpu is the fastest place that takes it', CASE WHEN n % 3 = 0 THEN 'gpu' END, 'bundle-1',
  'fastest', 'digest-' || (n % 10000), 80, '{request}',
  CASE WHEN n % 3 = 0 THEN '{edits}' ELSE '{{}}' END, '{ranked}'
FROM {numbers}
""",
    """
INSERT INTO runs (cluster, job_id, decision, "user", "partition", state, exit_status, submit_s,
  start_s, end_s, nodes, cores, gpus, time_limit_s, peak_bytes, elapsed_s, workload, bundle,
  candidate, platform, predicted_low_s, predicted_s, predicted_high_s, seen_end_s, seen_state,
  followed, gpu_type, node_list, account, name, program, script, arguments, similar, peak_source,
  raw_id, "use", workload_digest, ranked_cores, ranked_gpus, score)
SELECT 'tests', '' || n, 'd' || n, {user}, 'gpu', 'completed', 0, {time_s}, {time_s} + 60,
  {time_s} + 1060, 1, 8, 1, 3600, 2000000000, {runtime_s}, 'workload-' || (n % {workloads}),
  'bundle-1', 'gpu', {platform}, 400, 580, 900, {time_s} + 1060, 'completed',
  1, '', '', '', '', '', '', '', '', 'polled', '', 'used', 'sha256:workload-' || (n % {workloads}),
  8, 1, (n * 7919 % 601 - 300) / 200.0
FROM {numbers}
""",
)


def fill(store: Store, rows: int, ranked_bytes: int) -> None:
    """``rows`` decisions of a year, each with its outcome; the rankings take
    ``ranked_bytes`` each."""
    _workloads(store)
    sqlite = store.database.path is not None
    values = {
        "time_s": _time_s(rows, time.time() - YEAR_S),
        "user": USER,
        "platform": PLATFORM,
        "runtime_s": RUNTIME_S,
        "workloads": WORKLOADS,
        "request": REQUEST,
        "edits": EDITS,
        "ranked": RANKED + " " * (ranked_bytes - len(RANKED) - 1) + "]",
    }
    for first in steps("pieces stored", range(1, rows + 1, PIECE)):
        last = min(rows, first + PIECE - 1)
        numbers = (
            f"(WITH RECURSIVE r(n) AS (SELECT {first} UNION ALL "  # noqa: S608 - our numbers
            f"SELECT n + 1 FROM r WHERE n < {last}) SELECT n FROM r) AS numbers"
            if sqlite
            else f"generate_series({first}::bigint, {last}) AS n"
        )
        with store.database.write() as connection:
            if sqlite:
                connection.exec_driver_sql("PRAGMA cache_size = -400000")
            else:
                connection.execute(text("SET LOCAL statement_timeout = 0"))
            for statement in JOBS:
                made = statement.format(numbers=numbers, **values)
                connection.exec_driver_sql(made if sqlite else made.replace("%", "%%"))
    if not sqlite:
        _vacuum(store)


def _time_s(rows: int, begin_s: float) -> str:
    """When job ``n`` was decided upon, in SQL: sparse first, dense in the last days."""
    sparse = round(rows * (1 - DENSE_SHARE))
    dense_s = DENSE_DAYS * DAY_S
    step_s, dense_step_s = (YEAR_S - dense_s) / max(sparse, 1), dense_s / (rows - sparse)
    begin_dense_s = begin_s + YEAR_S - dense_s
    return (
        f"(CASE WHEN n <= {sparse} THEN {begin_s} + n * {step_s} "
        f"ELSE {begin_dense_s} + (n - {sparse}) * {dense_step_s} END)"
    )


def _workloads(store: Store) -> None:
    """Predicted, and with all that is learnt from the jobs: nothing is left to learn."""
    jobs = SiteJobs(store)
    for n in range(WORKLOADS):
        name = f"workload-{n}"
        seconds = {"a100-80gb": 580.0, "h200-141gb": 500.0}
        jobs.workload(forecast(name, seconds), owner=f"user-{n}")
    with store.database.write() as connection:
        for name in ("checked", "checked-everybody"):
            connection.execute(
                text(
                    "INSERT INTO counters (name, value) "
                    "SELECT :name, value FROM counters WHERE name = 'revision'"
                ),
                {"name": name},
            )


def _vacuum(store: Store) -> None:
    """What PostgreSQL does by itself some minutes after so many rows."""
    with store.database.engine.connect() as connection:
        alone = connection.execution_options(isolation_level="AUTOCOMMIT")
        alone.execute(text("SET statement_timeout = 0"))
        alone.execute(text("VACUUM ANALYZE"))
        alone.execute(text("RESET statement_timeout"))
