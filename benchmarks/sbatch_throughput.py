"""How many submissions a second Slurm takes without Berth, with a no-op Lua, and with the filter.

Two private clusters: one without any ``JobSubmitPlugins``, one whose job_submit.lua sends jobs
named ``noop`` through an empty function and all others through Berth's filter, which asks a real
``berth serve`` and moves the job. Blocks of ``sbatch --hold``, several at once, are sent to the
three in turns, in rotating order, so that each block has the other two beside it. ``berth serve``
runs throughout. Needs Slurm's daemons and root.

    python benchmarks/sbatch_throughput.py [--jobs 2000] [--block 200] [--at-once 4] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests" / "slurm"), str(HERE.parent / "tests" / "support")]

from sbatch_bench.submitter import (  # noqa: E402
    TWO_FILTERS,
    Submitter,
    as_user,
    check,
    cluster_with,
    why_no_slurm,
)
from slurm_cluster import USER, Cluster, cluster  # noqa: E402

BAR = 0.95
WITHOUT, NO_OP, FILTER = "no job_submit", "no-op Lua", "Berth's filter"
KINDS = (WITHOUT, NO_OP, FILTER)
JOB_NAMES = {WITHOUT: "job", NO_OP: "noop", FILTER: "job"}


def without_plugin(texts: dict[str, str]) -> dict[str, str]:
    """The cluster's configuration without a job_submit plugin."""
    lines = texts["slurm.conf"].splitlines()
    kept = [line for line in lines if not line.startswith("JobSubmitPlugins")]
    return {**texts, "slurm.conf": "\n".join(kept) + "\n"}


def rate(submitter: Submitter, name: str, count: int, at_once: int) -> float:
    """Submissions a second of one block."""
    left, going = count, 0
    began_s = time.perf_counter()
    with as_user(USER):
        while left or going:
            while left and going < at_once:
                submitter.start(name)
                left, going = left - 1, going + 1
            _, status = os.wait()
            going -= 1
            check(status, name)
    return count / (time.perf_counter() - began_s)


def measured(
    clusters: dict[str, Cluster], jobs: int, block: int, at_once: int
) -> dict[str, list[float]]:
    """Rates of each kind, block by block; a first block of each is left out."""
    submitters = {kind: Submitter(running) for kind, running in clusters.items()}
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for index in range(1 + -(-jobs // block)):
        turn = index % len(KINDS)
        for kind in KINDS[turn:] + KINDS[:turn]:
            one = rate(submitters[kind], JOB_NAMES[kind], block, at_once)
            if index:
                found[kind].append(one)
            clusters[kind].run("scancel", f"--user={USER}", "--state=PENDING", "--quiet")
            time.sleep(0.5)
    return found


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--block", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if missing := why_no_slurm():
        print(f"skipped: {missing}")
        return 0
    with (
        cluster(min_job_age_s=2, amend=without_plugin) as plain,
        cluster_with(TWO_FILTERS) as running,
    ):
        clusters = {WITHOUT: plain, NO_OP: running, FILTER: running}
        found = measured(clusters, given.jobs, given.block, given.at_once)
    print(
        f"{given.jobs} sbatch --hold of each, {given.at_once} at once, in blocks of {given.block}; "
        f"load {os.getloadavg()[0]:.2f}"
    )
    print(f"{'':<18}{'a second':>10}{'of no job_submit':>18}{'quartiles':>14}")
    shares = {}
    for kind, rates in found.items():
        parts = [one / other for one, other in zip(rates, found[WITHOUT], strict=True)]
        shares[kind] = statistics.median(parts)
        quartiles = statistics.quantiles(parts, n=4) if len(parts) > 1 else parts * 3
        print(
            f"{kind:<18}{statistics.median(rates):>10.1f}{100 * shares[kind]:>16.1f} %"
            f"{100 * quartiles[0]:>8.0f}, {100 * quartiles[2]:.0f} %"
        )
    verdict = "met" if shares[FILTER] >= BAR else "missed"
    print(f"bar: {100 * BAR:.0f} % of the rate without: {100 * shares[FILTER]:.1f} %, {verdict}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
