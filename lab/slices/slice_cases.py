"""MISO and ParvaGPU as workloads on the whole GPU and measured slow-downs on its slices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from berth.predictor.families.slices.physics import SliceShare
from berth.predictor.families.slices.workload import SliceWorkload, WholeRun
from lab.datasets.mig import USABLE_MIB, WHOLE, inference_rows, training_rows

SHARES = {1: SliceShare(1 / 7, 1 / 8), 2: SliceShare(2 / 7, 2 / 8), 3: SliceShare(3 / 7, 4 / 8),
          4: SliceShare(4 / 7, 4 / 8)}  # fmt: skip
"""Shares of compute and memory of the slices in both data sets, by number of compute slices."""
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Case:
    """One workload at one load (batch and processes), with measured slow-downs on slices."""

    model: str
    workload: SliceWorkload
    measured: Mapping[int, float]
    """Log of t_slice / t_whole, by number of compute slices."""
    reserved_mib: float | None = None

    @property
    def point(self) -> WholeRun:
        """Return the load on the whole GPU."""
        found = self.workload.target
        if found is None:
            raise AssertionError("every case was measured on the whole GPU")
        return found


@cache
def training_cases() -> tuple[Case, ...]:
    """Return MISO's 32 cases (model, batch), each with the model's other batches as points."""
    rows = training_rows()
    whole = {(r.model, r.batch): r for r in rows if r.compute_slices == WHOLE}
    points: dict[str, list[WholeRun]] = {}
    for (model, batch), r in whole.items():
        points.setdefault(model, []).append(
            WholeRun(
                batch=float(batch), step_s=r.step_s, mean_step_s=r.mean_step_s, power_w=r.power_w,
                sm_utilization=r.sm_utilization, memory_utilization=r.memory_utilization,
            )
        )  # fmt: skip
    found = []
    for (model, batch), r in whole.items():
        if r.step_s is None:
            continue
        slices = [
            s for s in rows
            if (s.model, s.batch) == (model, batch) and s.compute_slices != WHOLE
        ]  # fmt: skip
        workload = SliceWorkload(
            name=f"{model}-{batch}", gpu="A100-40GB", points=tuple(points[model]), batch=batch
        )
        steps = {s.compute_slices: math.log(s.step_s / r.step_s) for s in slices if s.step_s}
        found.append(Case(model, workload, steps, r.reserved_mib))
    return tuple(found)


@cache
def inference_cases() -> tuple[Case, ...]:
    """Return ParvaGPU's cases: each (model, batch, processes) run on the whole GPU and a slice."""
    points: dict[str, list[WholeRun]] = {}
    slices: dict[tuple[str, int, int], dict[int, float]] = {}
    for r in inference_rows():
        if r.compute_slices == WHOLE:
            points.setdefault(r.model, []).append(
                WholeRun(batch=float(r.batch), processes=r.processes, step_s=r.step_s)
            )
        else:
            slices.setdefault((r.model, r.batch, r.processes), {})[r.compute_slices] = r.step_s
    base = {
        model: SliceWorkload(name=model, gpu="A100-80GB", points=tuple(own), batch=own[0].batch)
        for model, own in points.items()
    }
    found = []
    for (model, batch, processes), times in slices.items():
        workload = base[model].model_copy(update={"batch": float(batch), "processes": processes})
        if workload.target is not None:
            whole_s = workload.target.seconds
            measured = {g: math.log(t / whole_s) for g, t in times.items()}
            found.append(Case(model, workload, measured))
    return tuple(found)


def alone_cases() -> tuple[Case, ...]:
    """Return ParvaGPU's cases of one process, of which only times over batches are known."""
    return _with_points(lambda _, point: point.processes == 1)


def pair_cases() -> tuple[Case, ...]:
    """Return ParvaGPU's cases of one process, of which times over batches are known, and the one
    with two processes at the case's batch."""
    return _with_points(
        lambda case, point: (
            point.processes == 1 or (point.processes, point.batch) == (2, case.point.batch)
        )
    )


def _with_points(is_known: Callable[[Case, WholeRun], bool]) -> tuple[Case, ...]:
    found = []
    for case in inference_cases():
        if case.point.processes == 1:
            points = tuple(point for point in case.workload.points if is_known(case, point))
            workload = case.workload.model_copy(update={"points": points})
            found.append(replace(case, workload=workload))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class FitsFigures:
    """MISO's slices by what was predicted and what happened."""

    predicted_and_ran: int
    predicted_but_failed: int
    """The costly mistake: the program runs out of memory."""
    refused_but_ran: int
    refused_and_failed: int


def fits_figures(margin: float = 1.0) -> FitsFigures:
    """Return how often the predicted fit of MISO's programs in a slice's memory was right.

    A program is predicted to fit where the slice has at least what the allocator reserved on the
    whole GPU, times ``margin``; nothing is fitted.
    """
    count = {(fits, ran): 0 for fits in (True, False) for ran in (True, False)}
    for row in training_rows():
        count[row.reserved_mib * margin <= USABLE_MIB[row.profile], row.fits] += 1
    return FitsFigures(
        count[True, True], count[True, False], count[False, True], count[False, False]
    )
