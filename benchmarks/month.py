"""A month of a public trace as a site's accounting, and what Berth does with the next week.

Half of the programs run on an old kind of node, which takes 1.6 times as long (``varied``: the
ratio is another for each program). The month is imported by ``berth jobs history import``; the
jobs of the next week, none of them piloted, are submitted to ``auto`` on empty queues, and to two
pools of cores under load, beside plain rules. The last table compares the figures with their aims.

    BERTH_DATASETS=... python benchmarks/month.py [--period between] [--ratios varied]

Everything is chosen on ``development``. The other periods are for a report at the end, once each:
``later`` was reported before the scatter of pairs was learnt, ``last`` after it, ``between`` (16
days and a week: the rest of the trace) after runs that were cut off or had not ended were seen to.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

from month_bench import queues  # noqa: E402
from month_bench.berth_site import Answer, Daemon, idle, imported, present  # noqa: E402
from month_bench.jobs import DAY_S, MEAN_RATIO, NEW, OLD, Job, accounting, jobs_of  # noqa: E402
from month_bench.queues import Chosen, Queues  # noqa: E402
from month_bench.ratios import coverage  # noqa: E402

from berth.predictor.core.prediction import Interval  # noqa: E402
from lab.datasets.ricc import trace  # noqa: E402

PERIODS = {
    "development": (0.0, 30.0), "later": (60.0, 90.0), "last": (80.0, 110.0),
    "between": (37.0, 53.0),
}  # fmt: skip
"""First and last day of the imported jobs."""
WEEK_DAYS = 7.0
LOADS = (0.40, 0.75)
FITS, TRUE_RATIO = "fits, new first", "own past time x true ratio, earliest end"
LEAST_ANSWERED, MOST_SLOWER, MOST_HOURS, LEAST_GAIN = 0.90, 0.05, 1.02, 0.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--period", choices=PERIODS, default="development")
    parser.add_argument("--ratios", choices=("constant", "varied"))
    parser.add_argument("--only-coverage", action="store_true", help="of the ratios' intervals")
    options = parser.parse_args()
    every_job = trace()
    begin_s, end_s = (day * DAY_S for day in PERIODS[options.period])
    bars: list[tuple[str, str, str]] = []
    for ratios in (options.ratios,) if options.ratios else ("constant", "varied"):
        varied = ratios == "varied"
        print(f"\n## {options.period} month, {ratios} ratios\n", flush=True)
        in_period = (every_job.submit_s >= begin_s) & (
            every_job.submit_s < end_s + WEEK_DAYS * DAY_S
        )
        table, held = coverage(every_job[in_period], end_s, varied=varied)
        print(table, "\n", flush=True)
        if varied:
            bars += [
                (f"{group}: intervals hold", "87 to 93 %", f"{held[group]:.1%}") for group in held
            ]
        if options.only_coverage:
            continue
        jobs = jobs_of(every_job, varied=varied)
        with tempfile.TemporaryDirectory() as temporary:
            of_month = _month(jobs, begin_s, end_s, Path(temporary))
        bars += [(f"{ratios}: {figure}", aim, value) for figure, aim, value in of_month]
    print("\n## Aims\n\n| figure | aim | is |\n|---|---|---|")
    for row in bars:
        print("| " + " | ".join(row) + " |")
    return 0


def _month(
    jobs: Sequence[Job], begin_s: float, end_s: float, folder: Path
) -> list[tuple[str, str, str]]:
    """Print one month's tables, and return its figures with their aims."""
    past = [job for job in jobs if begin_s <= job.submit_s < end_s]
    site_file, result, took_s = imported(accounting(past, end_s), folder)
    print(f"imported in {took_s:.0f} s: {result}\n", flush=True)
    daemon = Daemon(site_file)
    week = [job for job in jobs if end_s <= job.submit_s < end_s + WEEK_DAYS * DAY_S]
    bars = _print_answers(week, [daemon.answer(job, idle) for job in week])
    known = [job for job in past if job.start_s + job.on(job.queue) < end_s]
    rules: dict[str, Chosen] = {
        "Berth": lambda state, job: _asked(daemon, state, job),
        "the user's own": queues.own_choice,
        "always new": queues.in_order(NEW),
        "fits, in Slurm's order (old first)": queues.in_order(OLD, NEW),
        FITS: queues.in_order(NEW, OLD),
        "own past time x mean ratio, earliest end": queues.earliest_end(lambda _: MEAN_RATIO),
        TRUE_RATIO: queues.earliest_end(lambda j: j.ratio),
    }
    print(f"\n{len(week)} jobs; mean hours from submission to end, users equal\n")
    print("| rule | " + " | ".join(f"load {load:.0%}" for load in LOADS) + " |")
    print("|---|" + "---|" * len(LOADS))
    work = sum(job.on(NEW) * job.cores for job in week) / (WEEK_DAYS * DAY_S)
    hours: dict[str, list[float]] = {}
    for name, rule in rules.items():
        cores = [int(work / load / (1 + 1 / MEAN_RATIO)) for load in LOADS]
        hours[name] = [
            queues.hours_by_user(week, queues.simulate(week, count, rule, known)) for count in cores
        ]
        print(f"| {name} | " + " | ".join(f"{hour:.2f}" for hour in hours[name]) + " |", flush=True)
    for load, is_, fits, best in zip(
        LOADS, hours["Berth"], hours[FITS], hours[TRUE_RATIO], strict=True
    ):
        most = f"<= {MOST_HOURS} x {fits:.2f}"
        bars.append((f"hours at load {load:.0%}", most, f"{is_:.2f} ({is_ / fits:.3f} x)"))
        if best < fits:
            share = (fits - is_) / (fits - best)
            aim = f">= {LEAST_GAIN:.0%} where ratios vary"
            bars.append((f"gain at load {load:.0%}, of true ratios'", aim, f"{share:.0%}"))
    return bars


class _Wait:
    """The wait that the queue's state implies for one job, as Berth's look-ahead gives it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def at(self, units: int, runtime_s: float) -> Interval:
        """The same for every size and time: it was computed for this job."""
        return Interval(self._seconds, self._seconds, self._seconds)


def _asked(daemon: Daemon, state: Queues, job: Job) -> Sequence[str]:
    """Return the kinds that Berth chooses; a job left in ``auto`` starts in node order, old
    first."""
    answer = daemon.answer(
        job,
        lambda kind: present(
            state.free[kind], len(state.waiting[kind]), _Wait(state.wait_s(kind, job))
        ),
    )
    return answer.queues or (OLD, NEW)


def _print_answers(jobs: Sequence[Job], answers: Sequence[Answer]) -> list[tuple[str, str, str]]:
    """Print how the jobs are answered on empty queues, and return the figures with their aims."""
    count = len(jobs)
    placed = [(job, a) for job, a in zip(jobs, answers, strict=True) if a.queues]
    alone = [(job, a.queues[0]) for job, a in placed if len(a.queues) == 1]
    slower = [job for job, kind in alone if (kind == OLD) == (job.ratio > 1)]
    codes = Counter(a.code for a in answers)
    bases = Counter(a.basis or "fit" for _, a in placed)
    print(f"{count} jobs decided on empty queues\n\n| figure | value |\n|---|---|")
    print(f"| answered | {len(placed) / count:.1%} |")
    for basis, number in bases.most_common():
        print(f"| ... basis {basis} | {number / count:.1%} |")
    share = len(slower) / max(len(placed), 1)
    print(f"| sent to one kind alone | {len(alone) / count:.1%} |")
    print(f"| ... to the slower: share of those answered | {share:.1%} |")
    for code, number in codes.most_common():
        print(f"| code {code} | {number / count:.1%} |")
    print(flush=True)
    return [
        ("answered", f">= {LEAST_ANSWERED:.0%}", f"{len(placed) / count:.1%}"),
        ("alone to the slower kind", f"<= {MOST_SLOWER:.0%}", f"{share:.1%}"),
    ]


if __name__ == "__main__":
    sys.exit(main())
