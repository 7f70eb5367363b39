"""Slow-downs on MIG slices of jobs that nobody piloted, from what monitoring records of them.

MISO's programs as jobs on the whole GPU, of which utilisation of the GPU (and of its memory) and
the largest memory are recorded, and no step time. Leave-one-model-out, as in ``mig_slices``; the
intervals are those that are served (``predictor.families.slices.from_use``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.gpu_use import GpuUse
from berth.predictor.families.history.times_there import MEMORY_MARGIN
from berth.predictor.families.slices.from_use import (
    EASE,
    WITH_MEMORY,
    WITHOUT_MEMORY,
    interval,
    log_slowdown,
    most_log_slowdown,
)
from berth.predictor.families.slices.latent import Family
from lab.datasets.mig import training_rows
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.ground.splits import group_mean
from lab.ground.table import Floats, Strings
from lab.slices.latent import FAMILIES, fit_family
from lab.slices.mig_slices import MISO, SPLIT
from lab.slices.slice_bundle import as_recorded, shares_without
from lab.slices.slice_cases import MIB, SHARES, USABLE_MIB, Case, training_cases
from lab.slices.slice_errors import latent_left_out, width

SEES = {
    WITH_MEMORY: "utilisation of GPU and GPU memory",
    WITHOUT_MEMORY: "utilisation of the GPU",
}


@dataclass(frozen=True, slots=True)
class Scored:
    """Log slow-downs of held-out models with the predictions and intervals that would be served."""

    models: Strings
    measured: Floats
    predicted: Floats
    low: Floats
    high: Floats

    @property
    def errors(self) -> Floats:
        """Return |predicted / measured - 1|."""
        return np.asarray(np.abs(np.expm1(self.predicted - self.measured)))

    def cells(self, name: str, sees: str) -> tuple[str, ...]:
        """Return a line of the table."""
        inside = (self.low <= self.measured) & (self.measured <= self.high)
        known = bool(np.isfinite(self.low).all())
        coverage = group_mean(inside.astype(float), self.models.tolist())
        factor = float(np.median(np.exp(self.high - self.predicted)))
        return (
            name,
            str(len(self.measured)),
            f"{np.median(self.errors):.1%}",
            f"{self.errors.mean():.1%}",
            f"{coverage:.1%}" if known else "-",
            f"{factor:.2f}" if known else "-",
            sees,
        )


@dataclass(frozen=True, slots=True)
class Fitting:
    """MISO's slices by whether a job is said to fit and whether the program ran."""

    said_and_ran: int
    said_and_failed: int
    refused_and_ran: int
    refused_and_failed: int


def evaluate(options: Options) -> Report:
    """Report the errors from use beside plain baselines, and which slices are said to fit."""
    del options  # nothing is drawn
    scored = {name: left_out(name) for name in SEES}
    baselines = {"mean per slice": means(), "(1 - u) + u / share": by_limit()}
    lines = [
        *(one.cells(name, "nothing" if name.startswith("mean") else SEES[WITHOUT_MEMORY])
          for name, one in baselines.items()),
        *(one.cells(name, SEES[name]) for name, one in scored.items()),
    ]  # fmt: skip
    header = ("method", "rows", "median error", "mean error", "in 90 %", "upper factor", "sees")
    fits = fitting()
    failed = fits.said_and_failed + fits.refused_and_failed
    ran = fits.said_and_ran + fits.refused_and_ran
    words = (
        f"Fits, by the largest memory recorded and a margin of {MEMORY_MARGIN:g}: "
        f"{fits.said_and_failed} of the {failed} slices that failed are said to fit; "
        f"{fits.refused_and_ran} of the {ran} that ran are refused."
    )
    return Report(
        "Slices from use",
        (f"Split: {SPLIT}; errors are |predicted / measured - 1| of t_slice / t_whole.",),
        (Section(MISO, header, lines),),
        {"split": SPLIT, "fits": fits},
        {
            f"from use: {name}: {words_}": float(value)
            for name, one in scored.items()
            for words_, value in (
                ("median error", np.median(one.errors)), ("mean error", one.errors.mean()),
            )
        }
        | {"from use: slices that failed said to fit": float(fits.said_and_failed)},
        (words,),
    )  # fmt: skip


def left_out(name: str) -> Scored:
    """Return MISO's slow-downs, each by a method and a width that its model had no part in."""
    spec = next(spec for spec in FAMILIES if spec.name == name)
    cases = training_cases()
    held = as_recorded(latent_left_out(spec, cases, shares_without))
    rows: list[tuple[str, float, float, float, float]] = []
    for model in sorted({case.model for case in cases}):
        family = fit_family(spec, [c for c in cases if c.model != model], shares_without(model))
        q90 = width(held[held.models != model]).q90
        for case in cases:
            if case.model == model:
                rows += _rows(case, family, q90, with_memory=name == WITH_MEMORY)
    return _scored(rows)


def _rows(
    case: Case, family: Family, q90: float, *, with_memory: bool
) -> list[tuple[str, float, float, float, float]]:
    point, shares = case.point, shares_without(case.model)
    utilisation = point.sm_utilization or 1.0
    memory = point.memory_utilization if with_memory else None
    use = GpuUse(utilisation, utilisation, memory, 1)
    rows = []
    for slices, measured in sorted(case.measured.items()):
        effective = shares.effective(SHARES[slices])
        log = log_slowdown(family, use, effective)
        most = most_log_slowdown(utilisation, effective)
        served = interval(log, log, most, q90 * (EASE - math.log(effective)))
        rows.append((case.model, measured, log, math.log(served.low), math.log(served.high)))
    return rows


def means() -> Scored:
    """Return the mean slow-down of the other models on each slice as the prediction."""
    cases = training_cases()
    rows = []
    for case in cases:
        for slices, measured in sorted(case.measured.items()):
            others = [
                math.exp(c.measured[slices])
                for c in cases
                if c.model != case.model and slices in c.measured
            ]
            rows.append((case.model, measured, math.log(float(np.mean(others))), *_NO_INTERVAL))
    return _scored(rows)


def by_limit() -> Scored:
    """Return the upper limit by the GPU's utilisation as the prediction."""
    rows = []
    for case in training_cases():
        shares, used = shares_without(case.model), case.point.sm_utilization or 1.0
        for slices, measured in sorted(case.measured.items()):
            limit = most_log_slowdown(used, shares.effective(SHARES[slices]))
            rows.append((case.model, measured, limit, *_NO_INTERVAL))
    return _scored(rows)


_NO_INTERVAL = (math.nan, math.nan)


def _scored(rows: Sequence[tuple[str, float, float, float, float]]) -> Scored:
    models, *columns = zip(*rows, strict=True)
    return Scored(np.array(models), *(np.array(column) for column in columns))


def fitting() -> Fitting:
    """Return which of MISO's slices a job is said to fit in by its largest recorded memory."""
    count = {(said, ran): 0 for said in (True, False) for ran in (True, False)}
    for row in training_rows():
        need = row.reserved_mib * MIB * MEMORY_MARGIN
        count[need <= USABLE_MIB[row.profile] * MIB, row.fits] += 1
    return Fitting(count[True, True], count[True, False], count[False, True], count[False, False])
