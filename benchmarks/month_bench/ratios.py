"""How often the predicted ratio between the two kinds holds the true one."""

from __future__ import annotations

import math
import statistics

from month_bench.berth_site import PLATFORMS
from month_bench.jobs import OLD, Job, jobs_of, state_of

from berth.pilot.run import Run
from berth.plugin.history.run_times import PlacedJob
from berth.plugin.history.site_ratios import SiteRatios
from berth.predictor.families.history.workload import KindRatio
from berth.predictor.hardware import platforms as known_platforms
from lab.datasets.ricc import Trace

DRAWS = 20
"""Times that programs get other ratios and kinds: a month has few programs of both kinds."""
GROUPS = ("ran on none", "ran on one kind", "ran on both kinds")


def coverage(trace: Trace, end_s: float, *, varied: bool) -> tuple[str, dict[str, float]]:
    """Return a table of programs by the kinds on which they ran in the month, and the shares whose
    true ratio lies in the predicted interval, over ``DRAWS`` draws.

    ``trace``: the month, until ``end_s``, and the jobs that are decided after it.
    """
    rows: dict[str, list[tuple[float, bool]]] = {group: [] for group in GROUPS}
    for draw in range(1, DRAWS + 1):
        jobs = jobs_of(trace, varied=varied, draw=(draw,))
        past: dict[tuple[str, str], list[PlacedJob]] = {}
        kinds: dict[tuple[str, str], set[str]] = {}
        for job in (job for job in jobs if job.submit_s < end_s):
            kinds.setdefault((job.user, job.program), set()).add(job.queue)
            if job.start_s + job.on(job.queue) < end_s:
                past.setdefault((job.user, job.program), []).append(_placed(job))
        ratios = SiteRatios(known_platforms.load(), now_s=end_s)
        for user in {user for user, _ in past}:
            ratios.add(user, [one for key in past if key[0] == user for one in past[key]])
        unknown = [ratio for one in ratios.of_unknown_programs() for ratio in one.ratios]
        for key, job in {(j.user, j.program): j for j in jobs if j.submit_s >= end_s}.items():
            known = ratios.of_program(job.user, past[key]) if key in past else unknown
            if known:
                rows[GROUPS[len(kinds.get(key, ()))]].append(_compared(known[0], job))
    lines = [f"true ratios against the predicted ones, {DRAWS} draws of ratios and kinds", ""]
    lines += ["| program | number | median error | 90 % interval holds |", "|---|---|---|---|"]
    rows["all"] = [pair for each in rows.values() for pair in each]
    held = {}
    for group, pairs in rows.items():
        error = math.expm1(statistics.median(abs(error) for error, _ in pairs))
        held[group] = statistics.fmean(inside for _, inside in pairs)
        lines.append(f"| {group} | {len(pairs)} | {error:.1%} | {held[group]:.1%} |")
    return "\n".join(lines), held


def _compared(ratio: KindRatio, job: Job) -> tuple[float, bool]:
    """Return the log error of a predicted ratio, and whether its interval holds the true one."""
    truth = job.ratio if ratio.platform == PLATFORMS[OLD] else 1 / job.ratio
    return math.log(ratio.mid / truth), ratio.low <= truth <= ratio.high


def _placed(job: Job) -> PlacedJob:
    elapsed_s = job.on(job.queue)
    record = Run(
        cluster="month", job_id=str(job.number), user=job.user,
        state=state_of(job, elapsed_s).lower(), submit_s=job.submit_s, start_s=job.start_s,
        end_s=job.start_s + elapsed_s, elapsed_s=float(int(elapsed_s)), cores=job.cores,
        name=job.program, time_limit_s=60.0 * (job.limit_s // 60),
    )  # fmt: skip
    return PlacedJob(record, PLATFORMS[job.queue])
