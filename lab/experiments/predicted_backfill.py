"""RICC under EASY backfill that plans with predicted run times in place of requested ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from berth.pilot.units import format_elapsed
from berth.policies.replay import (
    Backfill,
    Replayed,
    Settings,
    Trace,
    one_pool,
    replay,
    trace_of,
)
from berth.predictor.learning.history import RunTimePredictor
from lab.datasets import ricc
from lab.experiments.options import Options
from lab.ground.report import Report, Section
from lab.ground.table import Floats
from lab.history.baselines import baselines
from lab.history.replay import Predicted
from lab.history.replay import replay as predict_in_order

CORES = 8_192
FITTED = 50_000
"""Jobs that the shipped weights were fitted on: figures are of the later ones."""
BAR = 0.15
REQUESTS = "requests"
FACTORS = (1.0, 1.5, 2.0, 3.0)
"""Of a prediction in the plan: too long plans let later jobs pass (Tsafrir, Etsion and Feitelson
2007 doubled them). The factor is chosen on the first jobs."""
CHOSEN_FROM = ("user's last two", "median of 20 alike", "past jobs weighed")
SHORT_JOBS = 20_000
"""With ``--only quick``: so many jobs, to see that it runs."""


def evaluate(options: Options) -> Report:
    """Waits and killed jobs by what the backfill plans with."""
    jobs = ricc.trace()
    first = FITTED
    if "quick" in options.only:
        jobs, first = jobs[np.arange(SHORT_JOBS)], SHORT_JOBS // 5
    found = predict_in_order(jobs, RunTimePredictor())
    plans = planned(jobs, found)
    trace = trace_of(
        jobs.submit_s, jobs.runtime_s, jobs.cores, limit_s=jobs.request_s, user=jobs.user,
        queues=("all",),
    )  # fmt: skip
    name, factor, tried = _choice(trace.rows(np.arange(first)), plans)
    chosen = f"chosen before: {name}, times {factor:g}"
    plans[chosen] = np.minimum(plans[name] * factor, jobs.request_s)
    done = {name: _replayed(trace, plan) for name, plan in plans.items()}
    before, later = done[REQUESTS], np.arange(len(trace)) >= first
    rows, data = [], {}
    for name, one in done.items():
        more = int(np.sum(one.killed & ~before.killed & later))
        wait_s, slowdown = one.wait_s[later], _slowdown(one)[later]
        change = float(np.nanmean(wait_s) / np.nanmean(before.wait_s[later]) - 1)
        data[name] = {
            "mean_wait_s": float(np.nanmean(wait_s)), "change": change, "killed_more": more,
            "killed": int(one.killed[later].sum()), "slowdown": float(np.nanmean(slowdown)),
        }  # fmt: skip
        rows.append(
            (
                name,
                format_elapsed(float(np.nanmean(wait_s))),
                f"{change:+.1%}",
                format_elapsed(float(np.nanquantile(wait_s, 0.95))),
                format_elapsed(float(np.nanquantile(wait_s, 0.99))),
                f"{np.nanmean(slowdown):.1f}",
                str(int(one.killed[later].sum())),
                str(more),
            )
        )
    header = ("backfill plans with", "mean wait", "to requests", "p95", "p99", "bounded slowdown",
              "killed", "not killed before")  # fmt: skip
    return Report(
        f"Backfill by predicted times: RICC 2010, {CORES:,} cores",
        (
            f"All {len(trace):,} jobs are replayed under EASY; figures are of the "
            f"{int(later.sum()):,} after the first {first:,}, on which the weights of past jobs "
            "were fitted. Jobs are killed at their requested time, whatever is planned.",
            "Predictions are made at submission from jobs that had ended then in fact, and are at "
            "most the request; jobs without history plan with it. One of them, and the factor that "
            "plans are longer by, is chosen by the mean wait of the first jobs alone.",
            f"Bar: at least {BAR:.0%} less mean wait than by requests, no job killed that was not.",
        ),
        (
            Section("Waits", header, rows),
            Section(
                f"Mean wait of the first {first:,} jobs, by which one is chosen",
                ("backfill plans with", *(f"times {factor:g}" for factor in FACTORS)),
                [
                    (one, *(format_elapsed(tried[one, factor]) for factor in FACTORS))
                    for one in CHOSEN_FROM
                ],
            ),
        ),
        data={**data, "chosen": chosen},
    )


def _choice(
    trace: Trace, plans: dict[str, Floats]
) -> tuple[str, float, dict[tuple[str, float], float]]:
    """What to plan with and the factor, with the least mean wait of these jobs; all that was tried.

    A plan is never longer than the request.
    """
    tried = {}
    for name in CHOSEN_FROM:
        for factor in FACTORS:
            plan = np.minimum(plans[name][: len(trace)] * factor, trace.limit_s)
            tried[name, factor] = float(np.nanmean(_replayed(trace, plan).wait_s))
    name, factor = min(tried, key=lambda one: (tried[one], one))
    return name, factor, tried


def planned(jobs: ricc.Trace, found: Predicted) -> dict[str, Floats]:
    """[jobs] seconds by what is planned with."""
    simple = baselines(jobs)
    plans = {
        REQUESTS: jobs.request_s,
        "user's last two": simple.last_two,
        "median of 20 alike": simple.median,
        "past jobs weighed": found.mid_s,
        "past jobs weighed, upper end": found.high_s,
        "true times": jobs.runtime_s,
    }
    return {
        name: np.where(np.isnan(plan), jobs.request_s, np.minimum(plan, jobs.request_s))
        for name, plan in plans.items()
    }


def _replayed(trace: Trace, plan: Floats) -> Replayed:
    settings = Settings(Backfill.EASY)
    return replay(replace(trace, planned_s=plan), one_pool(CORES), settings)


def _slowdown(done: Replayed) -> Floats:
    """[jobs] bounded slowdown (10 s)."""
    run = done.end_s - done.start_s
    return np.asarray(np.maximum((done.wait_s + run) / np.maximum(run, 10.0), 1.0))
