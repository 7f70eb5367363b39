"""MISO and ParvaGPU as workloads on the whole GPU and measured slow-downs on its slices."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from berth.predictor.families.slices.physics import Floats, Share
from berth.predictor.families.slices.sweep import SweepLaw
from berth.predictor.families.slices.sweep import fit as fit_law
from berth.predictor.families.slices.sweep_model import Loads
from berth.predictor.families.slices.workload import Point, SliceWorkload
from lab.datasets.mig import WHOLE, inference_rows, training_rows

SHARES = {1: Share(1 / 7, 1 / 8), 2: Share(2 / 7, 2 / 8), 3: Share(3 / 7, 4 / 8),
          4: Share(4 / 7, 4 / 8)}  # fmt: skip
"""Of the slices that both data sets measured, by compute slices."""
IDLE_W, LIMIT_W = 55.0, 250.0
"""Of MISO's A100 40 GB: the PCIe card's limit; its measured powers end at 247 W."""


@dataclass(frozen=True, slots=True)
class Case:
    """One workload at one load, with what slices really did (log t_slice / t_whole)."""

    model: str
    workload: SliceWorkload
    measured: dict[int, float]
    """By compute slices."""
    mean_measured: dict[int, float]
    """The same of mean step times, where there are any."""
    reserved_mib: float | None = None

    @property
    def point(self) -> Point:
        """The load on the whole GPU."""
        found = self.workload.target
        if found is None:
            raise AssertionError("every case was measured on the whole GPU")
        return found


@cache
def training_cases() -> tuple[Case, ...]:
    """MISO: 32 (model, batch), each with its other batches as points beside it."""
    rows = training_rows()
    whole = {(r.model, r.batch): r for r in rows if r.compute_slices == WHOLE}
    points: dict[str, list[Point]] = {}
    for (model, batch), r in whole.items():
        points.setdefault(model, []).append(
            Point(
                batch=float(batch), step_s=r.step_s, mean_step_s=r.mean_step_s, power_w=r.power_w,
                sm_utilization=r.sm_utilization, memory_utilization=r.memory_utilization,
            )
        )  # fmt: skip
    found = []
    for (model, batch), r in whole.items():
        if r.step_s is None or r.mean_step_s is None:
            continue
        slices = [
            s for s in rows
            if (s.model, s.batch) == (model, batch) and s.compute_slices != WHOLE
        ]  # fmt: skip
        workload = SliceWorkload(
            name=f"{model}-{batch}", gpu="A100-40GB", points=tuple(points[model]),
            batch=float(batch), idle_power_w=IDLE_W, power_limit_w=LIMIT_W,
        )  # fmt: skip
        found.append(
            Case(
                model,
                workload,
                {s.compute_slices: math.log(s.step_s / r.step_s) for s in slices if s.step_s},
                {
                    s.compute_slices: math.log(s.mean_step_s / r.mean_step_s)
                    for s in slices
                    if s.mean_step_s
                },
                r.reserved_mib,
            )
        )
    return tuple(found)


@cache
def inference_cases() -> tuple[Case, ...]:
    """ParvaGPU: every (model, batch, processes) that ran on the whole GPU and on a slice."""
    rows = inference_rows()
    points: dict[str, list[Point]] = {}
    for r in rows:
        if r.compute_slices == WHOLE:
            points.setdefault(r.model, []).append(
                Point(batch=float(r.batch), processes=r.processes, step_s=r.step_s)
            )
    base = {
        model: SliceWorkload(
            name=model, gpu="A100-80GB", points=tuple(of_model), batch=of_model[0].batch
        )
        for model, of_model in points.items()
    }
    slices: dict[tuple[str, int, int], dict[int, float]] = {}
    for r in rows:
        if r.compute_slices != WHOLE:
            slices.setdefault((r.model, r.batch, r.processes), {})[r.compute_slices] = r.step_s
    found = []
    for (model, batch, processes), times in slices.items():
        workload = base[model].model_copy(update={"batch": float(batch), "processes": processes})
        if workload.target is None:
            continue
        whole_s = workload.target.seconds
        found.append(
            Case(model, workload, {g: math.log(t / whole_s) for g, t in times.items()}, {})
        )
    return tuple(found)


@dataclass(frozen=True)
class Rows:
    """Cases as arrays, one row a (case, slice)."""

    models: tuple[str, ...]
    laws: tuple[SweepLaw, ...]
    loads: Loads
    slices: tuple[int, ...]
    log_slowdown: Floats

    def __len__(self) -> int:
        return len(self.models)

    def take(self, models: Iterable[str]) -> Rows:
        """The rows of these models."""
        wanted = frozenset(models)
        index = [i for i, m in enumerate(self.models) if m in wanted]
        return Rows(
            tuple(self.models[i] for i in index),
            tuple(self.laws[i] for i in index),
            Loads(
                self.loads.batch[index],
                self.loads.processes[index],
                self.loads.log_whole_s[index],
            ),
            tuple(self.slices[i] for i in index),
            self.log_slowdown[index],
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The models, sorted."""
        return tuple(sorted(set(self.models)))


@cache
def laws(one_process: bool = False) -> dict[str, SweepLaw]:
    """The law of each ParvaGPU model; ``one_process``: from its times without neighbours only."""
    found: dict[str, SweepLaw] = {}
    for case in inference_cases():
        if case.model in found:
            continue
        points = [p for p in case.workload.points if p.processes == 1 or not one_process]
        found[case.model] = fit_law(
            [p.batch for p in points], [p.processes for p in points], [p.seconds for p in points]
        )
    return found


@cache
def sweep_rows(one_process: bool = False) -> Rows:
    """ParvaGPU's rows on slices with the laws of their models."""
    cases = [c for c in inference_cases() if c.workload.processes == 1 or not one_process]
    flat = [(c, g, y) for c in cases for g, y in sorted(c.measured.items())]
    found = laws(one_process)
    return Rows(
        tuple(c.model for c, _, _ in flat),
        tuple(found[c.model] for c, _, _ in flat),
        Loads(
            np.array([c.point.batch for c, _, _ in flat]),
            np.array([float(c.point.processes) for c, _, _ in flat]),
            np.array([math.log(c.point.seconds) for c, _, _ in flat]),
        ),
        tuple(g for _, g, _ in flat),
        np.array([y for _, _, y in flat]),
    )
