"""Run times as the submit filter predicts them: from each user's own past jobs, by what matches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.predictor.learning.history import RunTimePredictor
from lab.datasets.ricc import Trace, trace
from lab.experiments.history import FITTED
from lab.experiments.options import Options
from lab.ground.report import Report, Section
from lab.ground.table import Flags, Floats
from lab.history.by_user import by_user
from lab.history.replay import replay

JOBS = 50_000
"""Those after the ones that the weights were fitted on."""


@dataclass(frozen=True, slots=True)
class Row:
    """One way to predict some jobs."""

    jobs: str
    history: str
    count: int
    accuracy: float
    coverage: float
    by_user: float
    """Coverage as a mean over users: jobs come in blocks of one kind."""
    log_width: float
    """Mean of log(high / low) of the 90 % intervals."""


def evaluate(_: Options) -> Report:
    """The second fifth of the trace: history begins empty."""
    jobs = trace()[np.arange(FITTED, FITTED + JOBS)]
    together, alone = replay(jobs, RunTimePredictor()), by_user(jobs)
    known = ~np.isnan(alone.mid_s)
    own = (alone.mid_s, alone.low_s, alone.high_s)
    rows = [
        _row("all with a past", "all users'", jobs, known, (together.mid_s, together.low_s,
                                                            together.high_s)),
        _row("all with a past", "the user's own", jobs, known, own),
    ]  # fmt: skip
    for first, last in ((2, 2), (3, 5), (6, 20), (21, len(jobs))):
        part = known & (alone.same >= first) & (alone.same <= last)
        name = f"{first} to {last}" if last < len(jobs) else f"{first} or more"
        rows.append(_row(f"after {name} of the same shape", "the user's own", jobs, part, own))
    weak = ~np.isnan(alone.weak_mid_s)
    rows += [
        _row("with a new time limit", "the user's own", jobs, weak, own),
        _row("with a new time limit", "the user's own, limit not said", jobs, weak,
             (alone.weak_mid_s, alone.weak_low_s, alone.weak_high_s)),
    ]  # fmt: skip
    return Report(
        f"Run times from each user's own past jobs: RICC 2010, jobs {FITTED:,} to "
        f"{FITTED + JOBS:,}",
        ("At submission, from jobs that had ended by then; history begins empty.",),
        (
            Section(
                "By what is known",
                ("jobs", "from past jobs of", "count", "accuracy", "coverage", "mean of users",
                 "mean log width"),
                [
                    (r.jobs, r.history, str(r.count), f"{r.accuracy:.3f}", f"{r.coverage:.1%}",
                     f"{r.by_user:.1%}", f"{r.log_width:.2f}")
                    for r in rows
                ],
            ),
        ),
        {"rows": rows},
    )  # fmt: skip


def _row(
    name: str, history: str, jobs: Trace, part: Flags, times: tuple[Floats, Floats, Floats]
) -> Row:
    mid_s, low_s, high_s = (column[part] for column in times)
    real_s = jobs.runtime_s[part]
    if not len(real_s):
        return Row(name, history, 0, *[float("nan")] * 4)
    accuracy = np.exp(-np.abs(np.log(mid_s / real_s)))
    inside = (low_s <= real_s) & (real_s <= high_s)
    users = jobs.user[part]
    by_user = [float(inside[users == one].mean()) for one in np.unique(users)]
    return Row(
        name, history, len(real_s), float(accuracy.mean()), float(inside.mean()),
        float(np.mean(by_user)),
        float(np.log(high_s / low_s).mean()),
    )  # fmt: skip
