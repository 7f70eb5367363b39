"""The week after an imported month of public traces: what placement is worth there.

    BERTH_DATASETS=... python benchmarks/month.py [--only five] [--load 0.7] [--seeds 1]

Four sites: two kinds of nodes, one 1.6 times slower; two whose ratio is another for each program
(0.7 to 3); those with a small high-memory kind; those with two kinds of GPUs too. CPU jobs are
RICC's, GPU jobs are Gavel's with its measured ratios. Programs share job names, and users have
habits (``month_bench/jobs.py``). ``berth jobs history import`` reads the month; then five rules
submit the same week to the same queues: the user's own choice, the list of all that fits (fast
first, scarce kinds only where the job fits on no other), the earliest predicted start, Berth, and
an oracle that knows all times. Two more rules bound what lists can gain by true times of the known
programs alone: by their order, and by kinds left out.

Sampled, so that three seeds take ten minutes on two idle cores: at most so many jobs of each user
in the month and in the week (``--jobs``); the pools are as large as the load asks for. The seed
draws that sample, ratios, names and habits. Intervals resample users, with the jobs of all seeds.
One job that starts a minute later can delay many others, so each week is simulated several times,
its submissions moved by up to five minutes, and a job counts with its mean (``--repeats``). On the
GPUs of five kinds at 85 % one repeat moves the mean of all jobs by 3 %, so that a figure of that
setting takes a dozen.
Berth learns nothing during the week. What it does not answer starts in the order of the nodes, old
first.

Everything is chosen on ``development``. The other periods are for a report, and were looked at
once, with the rule of 2026-11-29 (``docs/figures-history.md``): a new rule needs a new period.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

from month_bench import queues  # noqa: E402
from month_bench.berth_site import BerthSite  # noqa: E402
from month_bench.figures import Outcome, joined, tables  # noqa: E402
from month_bench.jobs import DAY_S, Job, jobs_of, ricc, uniform  # noqa: E402
from month_bench.sites import SITES  # noqa: E402

PERIODS = {"development": (0.0, 30.0), "first": (14.0, 44.0), "second": (67.0, 97.0)}
"""First and last day of the imported jobs; the week follows."""
LOADS = (0.5, 0.7, 0.85)
KNOWN_RUNS = 5
MOVED_S = 300.0
ALIKE = 1.01
"""A first place is the best where the job takes at most this many times as long as on another."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=SITES, action="append", help="site; may be given again")
    parser.add_argument("--load", type=float, action="append", help="may be given again")
    parser.add_argument("--seeds", type=int, default=3, help="default: 3")
    parser.add_argument("--period", choices=PERIODS, default="development")
    parser.add_argument("--jobs", type=int, nargs=2, default=(100, 40), metavar=("MONTH", "WEEK"),
                        help="most jobs of one user; default: 100 40")  # fmt: skip
    parser.add_argument("--repeats", type=int, default=4, help="simulations; default: 4")
    parser.add_argument("--stores", type=Path, help="folder where imported stores are kept, and "
                        "taken from: for work on decisions, which change no import")  # fmt: skip
    parser.add_argument("--workers", type=int, default=2, help="processes; default: 2")
    options = parser.parse_args()
    sites, begin_s = options.only or list(SITES), time.monotonic()
    # The longest first.
    weeks = [(site, seed) for site in reversed(sites) for seed in range(1, options.seeds + 1)]
    of_site: dict[str, list[list[Outcome]]] = {site: [] for site in sites}
    ricc()  # read before the processes begin, which then share it
    with ProcessPoolExecutor(options.workers) as workers:
        done = workers.map(_week, *zip(*weeks, strict=True), [options] * len(weeks))
        for (site, _), outcomes in zip(weeks, done, strict=True):
            of_site[site].append(outcomes)
    outcomes = [joined(seeds) for site in sites for seeds in zip(*of_site[site], strict=True)]
    print(f"# The {options.period} period; seeds: {options.seeds}; jobs of a user: at "
          f"most {options.jobs[0]} and {options.jobs[1]}; repeats: {options.repeats}; jobs: "
          f"{sum(len(each.users) for each in outcomes)}")  # fmt: skip
    print(tables(outcomes))
    _tell(begin_s, "done")
    return 0


def _week(site: str, seed: int, options: argparse.Namespace) -> list[Outcome]:
    """Return the outcomes of one seed's week on one site, one for each load."""
    kinds, begin_s = SITES[site], time.monotonic()
    first_s, end_s = (day * DAY_S for day in PERIODS[options.period])
    month, week = jobs_of(kinds, seed, first_s, end_s, options.jobs)
    with tempfile.TemporaryDirectory() as temporary:
        name = f"{options.period}-{site}-{seed}-{options.jobs[0]}"
        berth = BerthSite(kinds, month, end_s, (options.stores or Path(temporary)) / name)
    _tell(begin_s, f"{site}, seed {seed}: {len(month)} jobs of the month imported")
    known, listed = _known(month, end_s), queues.the_list(kinds)
    idle = queues.Queues(queues.pools(kinds, week, LOADS[0]))
    best_first = [
        [_is_best(job, rule(idle, job)[0]) for job in week] for rule in (berth.places, listed)
    ]
    _tell(begin_s, f"{site}, seed {seed}: {len(week)} jobs of the week asked on idle queues")
    rules = (
        queues.own_choice, listed, queues.earliest_start(kinds), berth.places, queues.oracle,
        queues.order_alone(listed, known), queues.kinds_left_out(listed, known),
    )  # fmt: skip
    outcomes = []
    for load in options.load or LOADS:
        ran = [
            np.mean(
                [
                    queues.simulate(_moved(week, repeat), queues.pools(kinds, week, load), rule)
                    for repeat in range(options.repeats)
                ],
                axis=0,
            )
            for rule in rules
        ]
        outcomes.append(
            Outcome(
                site, load, np.array([job.user for job in week]),
                np.array([job.program in known for job in week]),
                np.array([job.number not in berth.unanswered for job in week]),
                *np.moveaxis(np.array(ran) / 3600, -1, 0),
                np.array(best_first),
            )
        )  # fmt: skip
        _tell(begin_s, f"{site}, seed {seed}: load {load:.0%} simulated")
    return outcomes


def _moved(week: Sequence[Job], repeat: int) -> list[Job]:
    """Return the week as it is for 0, else each submission moved by up to five minutes."""
    if not repeat:
        return list(week)
    return [
        job._replace(
            submit_s=job.submit_s + MOVED_S * (2 * uniform("moved", job.number, repeat) - 1)
        )
        for job in week
    ]


def _known(month: Sequence[Job], end_s: float) -> set[str]:
    """Return the programs that completed five runs or more on each of their kinds."""
    ended = [job for job in month if job.completed and job.start_s + job.run_s[job.own] <= end_s]
    runs = Counter((job.program, job.own) for job in ended)
    return {j.program for j in month if all(runs[j.program, k] >= KNOWN_RUNS for k in j.fitting)}


def _is_best(job: Job, kind: str) -> bool:
    return job.run_s[kind] <= ALIKE * min(job.run_s[k] for k in job.fitting)


def _tell(begin_s: float, what: str) -> None:
    print(f"{time.monotonic() - begin_s:5.0f} s  {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
