"""What the Slurm filter adds to ``sbatch``: pairs of a no-op Lua and the filter, in one slurmctld.

A private cluster runs a job_submit.lua that sends jobs named ``noop`` through an empty function
and all others through Berth's filter, which asks a real ``berth serve`` and moves the job. Each
pair is two ``sbatch --hold``, one after the other, in rotating order; the added time is the
difference within the pair. A third, again a no-op, shows what of it is the machine's noise. Needs
Slurm's daemons and root.

    python benchmarks/sbatch_latency.py [--pairs 5000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "slurm"), str(ROOT / "tests" / "support")]

from sbatch_bench.submitter import (  # noqa: E402
    TWO_FILTERS,
    WARM_UP,
    Submitter,
    as_user,
    cluster_with,
    why_no_slurm,
)
from slurm_cluster import USER, Cluster  # noqa: E402

BAR_P50_MS = 0.5
BAR_P99_MS = 3.0
CLEAN_EVERY = 250

ORDERS = (("noop", "again", "job"), ("again", "job", "noop"), ("job", "noop", "again"))
"""Of the submissions of one round; ``again`` is a second no-op, whose difference is the noise."""


def measure(running: Cluster, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each submission, round by round."""
    submitter = Submitter(running)
    took: dict[str, list[float]] = {"noop": [], "again": [], "job": []}
    for index in range(WARM_UP + rounds):
        with as_user(USER):
            for kind in ORDERS[index % len(ORDERS)]:
                one = submitter.ms("job" if kind == "job" else "noop")
                if index >= WARM_UP:
                    took[kind].append(one)
        if index % CLEAN_EVERY == CLEAN_EVERY - 1:
            running.run("scancel", f"--user={USER}", "--state=PENDING", "--quiet")
    running.run("sbatch", "--hold", "-J", "report", "--wrap=true")
    return took


def quantile(values: Sequence[float], part: float) -> float:
    """Of sorted values, the one below which ``part`` of them lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def main() -> int:
    parser = argparse.ArgumentParser(description="What the filter adds to sbatch.")
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--json", type=Path, dest="json_file")
    given = parser.parse_args()
    if missing := why_no_slurm():
        print(f"skipped: {missing}")
        return 0
    with cluster_with(TWO_FILTERS) as running:
        took = measure(running, given.pairs)
        inside = [1000 * value for value in running.calls_s()][WARM_UP:]
    noop = took["noop"]
    added = [b - n for n, b in zip(noop, took["job"], strict=True)]
    rows = {
        "sbatch, no-op Lua": noop,
        "sbatch, Berth's filter": took["job"],
        "added, within the pair": added,
        "noise: no-op less no-op": [b - n for n, b in zip(noop, took["again"], strict=True)],
        "inside Lua, of it": inside,
    }
    print(f"{given.pairs} pairs of sbatch --hold; load {os.getloadavg()[0]:.2f}")
    print(f"{'milliseconds':<28}{'p50':>8}{'p90':>8}{'p99':>8}{'max':>8}")
    table = {}
    for name, values in rows.items():
        figures = [quantile(values, part) for part in (0.5, 0.9, 0.99)] + [max(values)]
        table[name] = dict(zip(("p50", "p90", "p99", "max"), figures, strict=True))
        print(f"{name:<28}" + "".join(f"{figure:8.2f}" for figure in figures))
    found = table["added, within the pair"]
    for key, bar in (("p50", BAR_P50_MS), ("p99", BAR_P99_MS)):
        verdict = "met" if found[key] <= bar else "MISSED"
        print(f"bar: added {key} <= {bar:g} ms: {found[key]:.2f} ms, {verdict}")
    print(f"mean added: {statistics.fmean(added):.2f} ms")
    if given.json_file:
        given.json_file.write_text(json.dumps({"pairs": given.pairs, "ms": table}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
