"""Predictions of left-out models, from which all interval widths and figures are computed.

The slice predictor itself is asked, with effective shares and processes fitted on other models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import LEVEL
from berth.predictor.families.slices.bundle import (
    LARGE_BATCH,
    MethodEntry,
    SliceManifest,
)
from berth.predictor.families.slices.physics import EASE, ShareModel
from berth.predictor.families.slices.predictor import (
    BATCHES,
    SWEEP,
    SlicePredictor,
)
from berth.predictor.families.slices.projected import WITH_MEMORY, WITHOUT_MEMORY
from berth.predictor.families.slices.workload import SliceProbe, WholeRun
from lab.ground.table import Places, Strings, Table, stacked
from lab.slices.fitting import METHODS, fit_process, fit_shares, model_weights
from lab.slices.slice_cases import (
    SHARES,
    Case,
    alone_cases,
    inference_cases,
    pair_cases,
    training_cases,
)

FROM_USE = (WITH_MEMORY, WITHOUT_MEMORY)
"""Methods for jobs of which monitoring recorded utilisation."""
GPUS = ("A100-40GB", "A100-80GB")
"""GPU models of MISO and of ParvaGPU."""
_FAMILIES = ("densenet", "resnet", "vgg")
LEAST_MODELS = 5
"""Least number of models with large batches for which these get a separate interval width."""


@dataclass(frozen=True)
class Held(Table):
    """Slices of loads whose model was left out; natural logs of t_slice / t_whole."""

    models: Strings
    loads: Places
    """Number of each row's load, its case's place in the data."""
    slices: Places
    measured: Floats
    predicted: Floats
    probed: Floats
    """Predicted when the smallest slice that ran is measured (probe); NaN: the row is the probe."""
    effective: Floats
    unsteadiness: Floats
    """What the predictor adds to the half width of the row's interval."""
    gpus: Strings
    batch: Floats

    @property
    def difficulty(self) -> Floats:
        """Return the difficulty of each row; the interval width is proportional to it."""
        return np.asarray(EASE - np.log(self.effective))

    @property
    def probe_helps(self) -> bool:
        """Return whether the rows with a probe have a smaller mean error with it than without."""
        known = np.isfinite(self.probed)
        off = [np.abs(np.expm1(p - self.measured))[known] for p in (self.predicted, self.probed)]
        return bool(known.any() and off[1].mean() < off[0].mean())

    def scores(self, *, probed: bool) -> Floats:
        """Return each row's log error / difficulty, after subtracting the row's unsteadiness.

        ``probed``: of predictions with a probe; NaN where there is none.
        """
        off = np.abs(self.measured - (self.probed if probed else self.predicted))
        return np.asarray(np.maximum(off - self.unsteadiness, 0.0) / self.difficulty)


@cache
def cases_of(method: str) -> tuple[Case, ...]:
    """Return what a method is fitted and scored on: a sweep on ParvaGPU, what needs utilisation on
    MISO, which has it, and ``typical`` on both."""
    if method == SWEEP:
        return (*inference_cases(), *pair_cases())
    if method == BATCHES:
        return alone_cases()
    if METHODS[method]:
        return training_cases()
    return tuple(map(_with_one_time, (*training_cases(), *alone_cases())))


def _with_one_time(case: Case) -> Case:
    """Return a case of which nothing but its own time is known."""
    point = WholeRun(
        batch=case.point.batch,
        processes=case.point.processes,
        step_s=case.point.seconds,
        mean_step_s=case.point.mean_step_s,
    )
    return replace(case, workload=case.workload.model_copy(update={"points": (point,)}))


def each_model(method: str) -> list[frozenset[str]]:
    """Return one set of each of a method's models, to leave it out."""
    return [frozenset({name}) for name in sorted({case.model for case in cases_of(method)})]


def each_family(method: str) -> list[frozenset[str]]:
    """Return one set of a method's models of each architecture family, to leave it out."""
    found: dict[str, set[str]] = {}
    for case in cases_of(method):
        family = next((f for f in _FAMILIES if case.model.startswith(f)), case.model)
        found.setdefault(family, set()).add(case.model)
    return [frozenset(members) for members in found.values()]


def left_out(method: str, parts: Callable[[str], Iterable[frozenset[str]]] = each_model) -> Held:
    """Return each part of a method's models predicted by fits on the others."""
    return left_out_of(method, cases_of(method), parts(method))


def left_out_of(method: str, cases: Sequence[Case], parts: Iterable[frozenset[str]]) -> Held:
    """Return the cases of each part of their models predicted by fits on the others."""
    held = stacked([_held_out(method, cases, part) for part in parts])
    # How unsteady the steps of recorded jobs are is not recorded.
    return replace(held, unsteadiness=np.zeros(len(held))) if method in FROM_USE else held


@cache
def shares_without(models: frozenset[str]) -> ShareModel:
    """Return effective shares learnt without models, also without their namesakes in ParvaGPU."""
    names = {case.model for case in inference_cases()}
    return fit_shares({name for name in names if not name.startswith(tuple(models))})


def _held_out(method: str, cases: Sequence[Case], models: frozenset[str]) -> Held:
    shares = shares_without(models)
    fitted: dict[str, Any] = {"gpus": GPUS, "shares": shares, "latents": ()}
    if method in METHODS:
        others = [case for case in cases if case.model not in models]
        fitted["latents"] = (fit_process(method, others, shares),)
    entry = MethodEntry(name=method, rows=1, models=1, data="", width=1.0, probed=1.0)
    predictor = SlicePredictor(SliceManifest.model_construct(methods=(entry,), **fitted))
    rows = [
        row
        for load, case in enumerate(cases)
        if case.model in models
        for row in _rows(predictor, case, load)
    ]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return Held(*columns)


def _rows(predictor: SlicePredictor, case: Case, load: int) -> list[tuple[object, ...]]:
    """Return a case's rows as ``Held`` has them."""
    workload, slices = case.workload, sorted(case.measured)
    shares = [SHARES[g] for g in slices]
    plain = predictor.predict(workload, shares, gpu=workload.gpu)
    probed = [math.nan] * len(slices)
    if slices:
        seconds = case.point.seconds * math.exp(case.measured[slices[0]])
        probe = SliceProbe(
            batch=case.point.batch, processes=case.point.processes, step_s=seconds, profile="1g"
        )
        told = predictor.predict(workload, shares, gpu=workload.gpu, probes=[(shares[0], probe)])
        probed[1:] = [math.log(one.slowdown.mid) for one in told[1:]]
    rows: list[tuple[object, ...]] = []
    for g, share, one, with_probe in zip(slices, shares, plain, probed, strict=True):
        effective = predictor.model.shares.effective(share)
        extra = math.log(one.slowdown.high / one.slowdown.mid) - (EASE - math.log(effective))
        rows.append((
            case.model, load, g, case.measured[g], math.log(one.slowdown.mid), with_probe,
            effective, max(extra, 0.0), workload.gpu, case.point.batch,
        ))  # fmt: skip
    return rows


def too_small(
    held: Held, room: Callable[[float], float], limits: Sequence[float]
) -> tuple[int, int, int]:
    """Return how many picks of the smallest slice under a limit on the slow-down are too small, how
    many too large, and how many there are; ``room``: what a pick adds to a log slow-down of such a
    half width."""
    half = width(held) * held.difficulty + held.unsteadiness
    asked = held.predicted + np.array([room(each) for each in half.tolist()])
    small = large = picks = 0
    for load in np.unique(held.loads):
        own = np.flatnonzero(held.loads == load)
        own = own[np.argsort(held.slices[own])]
        for limit in np.log(limits):
            picked = next(iter(own[asked[own] <= limit]), None)
            right = next(iter(own[held.measured[own] <= limit]), None)
            if picked is not None:
                picks += 1
                small += bool(held.measured[picked] > limit)
            large += right is not None and (
                picked is None or held.slices[picked] > held.slices[right]
            )
    return small, large, picks


def large_width(held: Held) -> float | None:
    """Return the width of large batches alone; None: too few models had such for a quantile."""
    large = held[held.batch >= LARGE_BATCH]
    return width(large) if len(set(large.models.tolist())) >= LEAST_MODELS else None


def width(held: Held, *, probed: bool = False) -> float:
    """Return the 90 % quantile of the scores; each model has the same weight.

    It is the greatest quantile over all ways to leave one model out, because the quantile over so
    few models covers too little on a new model.
    """
    scores = held.scores(probed=probed)
    known = np.isfinite(scores)
    scores, models = scores[known], held.models[known]

    found = [
        quantile(scores[models != name], models[models != name].tolist(), LEVEL)
        for name in np.unique(models)
    ]
    return round(max(*found, 1e-3), 6)


def quantile(values: Floats, models: Sequence[str], level: float) -> float:
    """Return the ``level`` quantile of ``values``; each model has the same total weight."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(model_weights(models)[order])
    index = int(np.searchsorted(reached, level - 1e-9))
    return float(values[order][min(index, len(values) - 1)])
