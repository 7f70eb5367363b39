"""Sizes of workflow tasks, one after the other, and what they waste.

A task that is undersized is lost at the end of its run and repeated with its preset: what its
attempt held for its run time is wasted, and so is what the second one asked for beyond its peak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lab.datasets.sizey import TaskRun
from lab.history.peak_sizes import PeakPredictor


class Sizer(Protocol):
    """Learns from runs in order of their ends, and predicts sizes."""

    def ended(self, run: TaskRun) -> None:
        """A task has run."""
        ...

    def size(self, run: TaskRun) -> float:
        """Bytes to ask for; nothing that is known after its start is looked at."""
        ...


class LargestSoFar:
    """1.1 times the largest peak of the task so far, the preset at first."""

    def __init__(self) -> None:
        self._largest: dict[str, float] = {}

    def ended(self, run: TaskRun) -> None:
        """Remember its peak."""
        self._largest[run.task] = max(self._largest.get(run.task, 0.0), run.peak_bytes)

    def size(self, run: TaskRun) -> float:
        """For the next run."""
        largest = self._largest.get(run.task)
        return run.preset_bytes if largest is None else 1.1 * largest


class Preset:
    """What the workflow asks for."""

    def ended(self, run: TaskRun) -> None:
        """Learns nothing."""

    def size(self, run: TaskRun) -> float:
        """The preset."""
        return run.preset_bytes


class Predicted:
    """Berth's."""

    def __init__(self, predictor: PeakPredictor) -> None:
        self._predictor = predictor

    def ended(self, run: TaskRun) -> None:
        """Learn from it."""
        self._predictor.ended(
            run.task, run.peak_bytes, run.preset_bytes, sample=run.sample, runtime_s=run.runtime_s
        )

    def size(self, run: TaskRun) -> float:
        """For the next run."""
        return self._predictor.size(run.task, run.preset_bytes, sample=run.sample)


@dataclass(frozen=True, slots=True)
class Waste:
    """Of all runs of a workflow."""

    runs: int
    undersized: int
    byte_seconds: float


def waste(runs: Sequence[TaskRun], sizer: Sizer, *, by_start: bool) -> Waste:
    """In order of start, from runs that had ended by then; or of completion, from all before."""
    if not by_start:
        undersized, total = 0, 0.0
        for run in sorted(runs, key=lambda one: one.end_s):
            failed, cost = _cost(run, sizer.size(run))
            undersized, total = undersized + failed, total + cost
            sizer.ended(run)
        return Waste(len(runs), undersized, total)
    by_end = sorted(runs, key=lambda one: one.end_s)
    ended, undersized, total = 0, 0, 0.0
    for run in sorted(runs, key=lambda one: one.start_s):
        while ended < len(by_end) and by_end[ended].end_s <= run.start_s:
            sizer.ended(by_end[ended])
            ended += 1
        failed, cost = _cost(run, sizer.size(run))
        undersized, total = undersized + failed, total + cost
    return Waste(len(runs), undersized, total)


def _cost(run: TaskRun, size: float) -> tuple[bool, float]:
    if size >= run.peak_bytes:
        return False, (size - run.peak_bytes) * run.runtime_s
    repeated = max(run.preset_bytes, run.peak_bytes) - run.peak_bytes
    return True, (size + repeated) * run.runtime_s
