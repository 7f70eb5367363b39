"""Rules out the places where a program failed at once after Berth had moved its job there.

A program may refuse what runs elsewhere: more threads than the place has cores, an instruction that
its nodes lack, a library that is not installed. It then ends within seconds, each time. The place
is out for this user's jobs of the program until one of them completes there, or one that Berth left
where it was submitted fails at once, too (then the fault is not the place's), or for a month.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from berth.plugin.scheduler.ruled_out import RuledOut
from berth.plugin.store.decisions import Decisions
from berth.plugin.store.records import PlacedRun

AT_ONCE_S = 10.0
"""A program that fails sooner has not begun its work: it read its arguments and loaded
libraries."""
REMEMBERED_S = 30 * 86_400.0
MOST_READ = 20_000
"""The most outcomes that are read when the daemon starts."""


class FailedAtOnce:
    """What the outcomes of jobs say of places where they failed at once, in any order."""

    def __init__(self) -> None:
        self._failed: dict[tuple[str, str, str], PlacedRun] = {}
        """The last such job by user, workload and candidate."""
        self._well_s: dict[tuple[str, str, str], float] = {}
        """The last end (Unix time) of a job that completed there, or with an empty candidate of one
        that failed at once where it was submitted."""

    def take(self, outcomes: Iterable[PlacedRun], decisions: Decisions) -> None:
        """Take note of outcomes. Raises StoreError."""
        failed = []
        for outcome in outcomes:
            if outcome.state == "completed":
                self._note(outcome, outcome.candidate)
            elif outcome.state == "failed" and outcome.elapsed_s < AT_ONCE_S:
                failed.append(outcome)
        moved = decisions.changed({outcome.decision or "" for outcome in failed}) if failed else ()
        for outcome in failed:
            if outcome.decision not in moved:
                self._note(outcome, "")
            elif outcome.workload and outcome.candidate:
                key = outcome.user, outcome.workload, outcome.candidate
                before = self._failed.setdefault(key, outcome)
                if (before.end_s or 0.0) < (outcome.end_s or 0.0):
                    self._failed[key] = outcome

    def _note(self, outcome: PlacedRun, candidate: str | None) -> None:
        if outcome.workload and candidate is not None:
            key = outcome.user, outcome.workload, candidate
            self._well_s[key] = max(self._well_s.get(key, 0.0), outcome.end_s or 0.0)

    def entries(self, now_s: float | None = None) -> tuple[RuledOut, ...]:
        """Return the places that are ruled out at a Unix time; None: now."""
        since_s = (time.time() if now_s is None else now_s) - REMEMBERED_S
        return tuple(
            RuledOut(
                candidate=candidate,
                user=user,
                workload=workload,
                reason=f"failed here after {outcome.elapsed_s:g} s",
                job=outcome.job_id,
                since_s=outcome.end_s or 0.0,
                of_workload=True,
            )
            for (user, workload, candidate), outcome in list(self._failed.items())
            if (outcome.end_s or 0.0)
            > max(since_s, *(self._well_s.get((user, workload, at), 0.0) for at in (candidate, "")))
        )
