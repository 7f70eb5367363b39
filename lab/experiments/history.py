"""Run times of a trace's jobs from past jobs alone, in order of time, beside baselines."""

from __future__ import annotations

import resource
from dataclasses import dataclass

import numpy as np

from berth.predictor.learning.history import RunTimePredictor
from lab.datasets.ricc import Trace, trace
from lab.experiments.options import Options
from lab.ground.report import Report, Section
from lab.ground.table import Flags, Floats
from lab.history.baselines import baselines
from lab.history.replay import replay

FITTED = 50_000
"""Jobs that the shipped weights were fitted on: the first fifth."""


@dataclass(frozen=True, slots=True)
class Row:
    """Accuracy of one method on some jobs: mean of min(p, t) / max(p, t)."""

    jobs: str
    method: str
    share: float
    accuracy: float
    over_users: float


@dataclass(frozen=True, slots=True)
class Width:
    """Intervals of one method."""

    jobs: str
    method: str
    coverage: float
    log_width: float
    """Mean of log(high / low)."""


def train(options: Options) -> str:
    """The weights from the first fifth of the trace."""
    from lab.history import fit  # noqa: PLC0415 - torch only where something is trained

    jobs = trace()[np.arange(FITTED)]
    chosen = fit.sampled(jobs, options.seed)
    constants = [
        fit.fit(fit.examples(jobs, chosen, at_start=at_start), options.seed)
        for at_start in (False, True)
    ]
    path = fit.write(options.bundle, *constants)
    return f"{path}: fitted on {int(chosen.sum())} of the first {FITTED} jobs"


def evaluate(options: Options) -> Report:
    """The whole trace once through the predictor, once through the baselines."""
    jobs = trace()
    predictor = RunTimePredictor()
    found = replay(jobs, predictor)
    used_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    simple = baselines(jobs)
    everything = np.ones(len(jobs), bool)
    parts = {"all": everything, "after the first fifth": np.arange(len(jobs)) >= FITTED}
    rows, widths = [], []
    for name, part in parts.items():
        for method, mid_s, of in (
            ("the request", simple.request, everything),
            ("user's last two", simple.last_two, everything),
            ("median of 20, user + processors + request", simple.median, everything),
            ("past jobs weighed", found.mid_s, everything),
            ("past jobs weighed, where trusted", found.mid_s, found.trusted),
            ("at the start: median of 20", simple.median_at_start, everything),
            ("at the start: past jobs weighed", found.renewed_s, everything),
            ("at the start: where trusted", found.renewed_s, found.renewed_trusted),
        ):
            rows.append(_row(name, method, jobs, mid_s, part=part, of=of))
        both = part & ~np.isnan(simple.low)
        for method, low_s, high_s, of in (
            ("quantiles of 20", simple.plain_low, simple.plain_high, both),
            ("quantiles of 20, padded online", simple.low, simple.high, both),
            ("past jobs weighed, same jobs", found.low_s, found.high_s, both),
            ("past jobs weighed, where trusted", found.low_s, found.high_s, part & found.trusted),
        ):
            inside = (low_s <= jobs.runtime_s) & (jobs.runtime_s <= high_s)
            width = float(np.log(high_s / low_s)[of].mean())
            widths.append(Width(name, method, float(inside[of].mean()), width))
    cost = {
        "prediction_us": found.prediction_us,
        "replay_s": found.seconds,
        "learning_s": found.learning_s,
        "memory_mb": used_mb,
        "keys": float(len(predictor)),
    }
    return Report(
        "Run times from past jobs: RICC 2010, 250,000 jobs in order of time",
        ("A prediction uses jobs that had ended by then. Weights fitted on the first 50,000 jobs.",
         "Accuracy: mean of min(predicted, real) / max(predicted, real)."),
        (
            Section("Accuracy", ("jobs", "method", "share of jobs", "accuracy", "mean over users"),
                    [(r.jobs, r.method, f"{r.share:.1%}", f"{r.accuracy:.3f}",
                      f"{r.over_users:.3f}") for r in rows]),
            Section("90 % intervals", ("jobs", "method", "coverage", "mean log width"),
                    [(w.jobs, w.method, f"{w.coverage:.1%}", f"{w.log_width:.2f}")
                     for w in widths]),
            Section("Cost", ("one prediction, processor time", "learning alone, processor time",
                     "whole replay, 2 predictions a job",
                     "memory of the process, with the trace"),
                    [(f"{cost['prediction_us']:.0f} us", f"{cost['learning_s']:.0f} s",
                      f"{cost['replay_s']:.0f} s",
                      f"{used_mb:.0f} MB")]),
        ),
        {"accuracy": rows, "intervals": widths, "cost": cost},
    )  # fmt: skip


def _row(name: str, method: str, jobs: Trace, mid_s: Floats, *, part: Flags, of: Flags) -> Row:
    chosen = part & of & ~np.isnan(mid_s)
    accuracy = np.exp(-np.abs(np.log(np.where(chosen, mid_s, 1.0) / jobs.runtime_s)))
    users = jobs.user[chosen]
    over_users = [float(accuracy[chosen & (jobs.user == user)].mean()) for user in np.unique(users)]
    return Row(
        name, method, float(chosen.sum() / part.sum()), float(accuracy[chosen].mean()),
        float(np.mean(over_users)),
    )  # fmt: skip
