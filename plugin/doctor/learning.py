"""Doctor's look at what finished jobs teach: changes, intervals that fail, jobs left behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from berth.plugin.doctor.findings import Finding, Findings, Status
from berth.plugin.doctor.store import opened
from berth.plugin.outcomes.exploring import Ledger
from berth.plugin.site.site import Site
from berth.policies.values import Mode

if TYPE_CHECKING:
    from berth.plugin.learning.shown import NewestJobs

_RECENT_S = 7 * 86_400.0
_LATE_S = 600.0


def check_exploring(site: Site) -> Findings:
    """What jobs that were sent somewhere to learn have taken of the budget."""
    explore = site.policy.explore
    if not explore.on:
        return
    if site.mode is not Mode.ENFORCE:
        yield Finding(
            "exploring",
            Status.WARN,
            f"[policy.explore] has a budget, and mode {site.mode.value} moves no job",
            'mode = "enforce", or core_hours = 0',
        )
    if not site.learning.enabled or not site.daemon.outcomes_refresh_s:
        yield Finding(
            "exploring",
            Status.WARN,
            "[policy.explore] has a budget, and the daemon does not learn from finished jobs",
            "[learning] enabled = true and daemon.outcomes_refresh_s above 0",
        )
    ledger = Ledger(explore)
    with closing(opened(site)) as store:
        ledger.read(store.decisions)
    found = ledger.summary()
    text = (
        f"{found['jobs']} jobs were sent somewhere to learn in the last {found['days']:g} days, "
        f"with {found['core_hours']:g} of {found['budget']:g} core-hours"
    )
    yield Finding("exploring", Status.OK, text)


def check_learning(site: Site, newest: Callable[[], NewestJobs] | None = None) -> Findings:
    """By the store's evidence of the newest jobs; ``newest`` gives it where others use it, too."""
    from berth.plugin.learning.shown import NewestJobs  # noqa: PLC0415 - numpy

    if newest is not None:
        yield from _learnt(newest())
        return
    with closing(opened(site)) as store:
        yield from _learnt(NewestJobs(store))


def _learnt(newest: NewestJobs) -> Findings:
    from berth.plugin.learning.counted import COUNTED  # noqa: PLC0415 - numpy
    from berth.plugin.learning.learner import notices  # noqa: PLC0415
    from berth.plugin.learning.shown import MOST_SHOWN  # noqa: PLC0415

    now_s = time.time()
    store, records = newest.store, newest.stored.last
    of = f"the newest {MOST_SHOWN:,}" if len(records) == MOST_SHOWN else str(len(records))
    counted = sum(record.use in COUNTED for record in records)
    learnt = len(store.learning.inputs())
    yield Finding(
        "learning",
        Status.OK,
        f"{counted} of {of} ended jobs count; {learnt} forecasts are learnt",
    )
    late = store.learning.pending(now_s - _RECENT_S, 1)
    if late and (late[0].end_s or now_s) < now_s - _LATE_S:
        yield Finding(
            "learning",
            Status.WARN,
            "jobs that ended more than ten minutes ago are not learnt from",
            "does the daemon run, with [learning] enabled? by hand: berth learn",
        )
    history = newest.history
    for name in history.platforms:
        found = history.holding(name)
        if found.fails:
            yield Finding(
                "learning",
                Status.WARN,
                f"predicted times on {name} held for only {found.inside} of the last "
                f"{found.jobs} jobs: who ran them is not sent there on their strength",
                "berth outcomes --jobs; has the platform changed? berth calibrate",
            )
    for text in notices(history, now_s - _RECENT_S):
        yield Finding("learning", Status.WARN, text, "berth calibrate, where a platform changed")
