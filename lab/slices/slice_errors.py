"""Predictions of left-out models, from which all interval widths and figures are computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.slices.bundle import LARGE_BATCH, SlowdownWidth
from berth.predictor.families.slices.equivalence import Curve, probe_factor
from berth.predictor.families.slices.from_use import (
    WITH_MEMORY,
    WITHOUT_MEMORY,
    most_log_slowdown,
)
from berth.predictor.families.slices.latent import Latents
from berth.predictor.families.slices.physics import ShareModel
from berth.predictor.families.slices.predictor import (
    BATCHES,
    EASE,
    PAIR,
    PROBE_HALF_WIDTH,
    SWEEP,
)
from berth.predictor.families.slices.sweep import LoadModel, Loads, SeenProbe, SweepModel
from lab.ground.table import Places, Strings, Table, stacked
from lab.slices.latent import FamilySpec, fit_family, predicted, slowdowns
from lab.slices.slice_cases import SHARES, Case, SliceRows, pair_rows, rows_of, sweep_rows
from lab.slices.sweep import effective, fit_sweep, log_slowdowns, model_weights

FROM_USE = (WITH_MEMORY, WITHOUT_MEMORY)
"""Methods for jobs of which monitoring recorded utilisation."""
_FAMILIES = ("densenet", "resnet", "vgg")
LEAST_MODELS = 5
"""Least number of models with large batches for which these get a separate interval width."""


@dataclass(frozen=True)
class Held(Table):
    """Slices of loads whose model was left out; natural logs of t_slice / t_whole."""

    models: Strings
    slices: Places
    measured: Floats
    predicted: Floats
    probed: Floats
    """Predicted when the smallest slice that ran is measured (probe); NaN: the row is the probe."""
    effective: Floats
    unsteadiness: Floats
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


def _held(
    rows: SliceRows,
    shares: ShareModel,
    log_predicted: Floats,
    probed: Floats,
    *,
    knows_use: bool = True,
) -> Held:
    """Return predictions as they are served; ``knows_use``: the method is given the utilisation of
    the GPU, where the data set has it."""
    share = effective(rows, shares)
    used = [case.point.sm_utilization if knows_use else None for case in rows.cases]
    most = [
        math.inf if u is None else most_log_slowdown(u, float(e))
        for u, e in zip(used, share, strict=True)
    ]
    return Held(
        models=rows.models,
        slices=rows.slices,
        measured=rows.log_slowdown,
        predicted=np.clip(log_predicted, 0.0, most),
        probed=np.clip(probed, 0.0, most),
        effective=share,
        unsteadiness=np.array([case.point.unsteadiness for case in rows.cases]),
        gpus=np.array([case.workload.gpu for case in rows.cases]),
        batch=rows.batch,
    )


def latent_held(
    spec: FamilySpec, trained: Sequence[Case], out: Sequence[Case], shares: ShareModel
) -> Held:
    """Return predictions of the cases ``out`` by a family fitted on the cases ``trained``."""
    found = predicted(fit_family(spec, trained, shares), out)
    by_slice = slowdowns(found, shares)
    plain, probed = [], []
    for i, case in enumerate(out):
        if not case.measured:
            continue
        probe = min(case.measured)
        one = Latents(found.sharpness, found.values[:, i : i + 1]).probed(
            [case.measured[probe]], [shares.effective(SHARES[probe])], case.point.unsteadiness
        )
        is_accident = case.measured[probe] > SHARES[probe].most_log_slowdown + PROBE_HALF_WIDTH
        for g in sorted(case.measured):
            share = shares.effective(SHARES[g])
            plain.append(float(by_slice[g][i]))
            again = plain[-1] if is_accident else float(one.log_slowdown(np.array([share]))[0])
            probed.append(math.nan if g == probe else again)
    return _held(
        rows_of(out), shares, np.array(plain), np.array(probed), knows_use=bool(spec.needs)
    )


def latent_left_out(
    spec: FamilySpec, cases: Sequence[Case], shares_without: Callable[[str], ShareModel]
) -> Held:
    """Return each model of ``cases`` in turn predicted by the others."""
    return stacked(
        [
            latent_held(
                spec,
                [c for c in cases if c.model != name],
                [c for c in cases if c.model == name],
                shares_without(name),
            )
            for name in sorted({c.model for c in cases})
        ]
    )


def sweep_held(model: SweepModel, out: SliceRows, shares: ShareModel) -> Held:
    """Return predictions of ``out`` by a sweep model that was fitted on other models."""
    return _held(out, shares, log_slowdowns(model, out, shares), _with_probe(model, out, shares))


def rule_held(out: SliceRows, shares: ShareModel) -> Held:
    """Return predictions of ``out`` by batch equivalence, for which only ``shares`` are fitted.

    A probe is the smallest slice of the same load; the other slices are predicted with it.
    """
    predicted_log, probed = np.zeros(len(out)), np.full(len(out), np.nan)
    unsure = np.zeros(len(out))
    share, loads = effective(out, shares), out.groups("models", "batch", "processes")
    for load in np.unique(loads):
        index = np.flatnonzero(loads == load)
        case = out.cases[index[0]]
        curve = Curve.of(case.workload.points, case.point.processes)
        if curve is None:
            raise AssertionError("every load of the data sets stands in a sweep over batches")
        predicted_log[index] = curve.log_slowdowns(case.point.batch, share[index])
        unsure[index] = curve.unsure(case.point.batch, share[index])
        probe = index[out.slices[index].argmin()]
        factor = probe_factor([float(predicted_log[probe])], [float(out.log_slowdown[probe])])
        rest = index[index != probe]
        probed[rest] = factor * predicted_log[rest]
    held = _held(out, shares, predicted_log, probed)
    return replace(held, unsteadiness=held.unsteadiness + unsure)


def sweeps_left_out(parts: Iterable[frozenset[str]], seed: int) -> dict[str, Held]:
    """Return predictions of each set of models in ``parts`` by fits on the other models, by
    method."""
    rows, alone = sweep_rows(), pair_rows()
    held: dict[str, list[Held]] = {SWEEP: [], PAIR: [], BATCHES: []}
    for away in parts:
        others = set(rows.names) - away
        fitted = fit_sweep(rows.of(others), alone.of(others), seed)
        held[SWEEP].append(sweep_held(fitted.model, rows.of(away), fitted.shares))
        held[PAIR].append(sweep_held(fitted.model, alone.of(away), fitted.shares))
        held[BATCHES].append(rule_held(alone.of(away), fitted.shares))
    return {name: stacked(parts) for name, parts in held.items()}


def each_model(rows: SliceRows) -> list[frozenset[str]]:
    """Return one set of each model, to leave it out."""
    return [frozenset({name}) for name in rows.names]


def each_family(rows: SliceRows) -> list[frozenset[str]]:
    """Return one set of ParvaGPU's models of each architecture family, to leave it out."""
    found: dict[str, set[str]] = {}
    for name in rows.names:
        family = next((f for f in _FAMILIES if name.startswith(f)), name)
        found.setdefault(family, set()).add(name)
    return [frozenset(members) for members in found.values()]


def large_width(held: Held) -> SlowdownWidth | None:
    """Return the width of large batches alone; None: too few models had such for a quantile."""
    large = held[held.batch >= LARGE_BATCH]
    return width(large) if len(set(large.models.tolist())) >= LEAST_MODELS else None


def _with_probe(model: SweepModel, rows: SliceRows, shares: ShareModel) -> Floats:
    """Predict with a probe on the smallest slice of the same load; NaN for the probes
    themselves."""
    found = np.full(len(rows), np.nan)
    share, loads = effective(rows, shares), rows.groups("models", "batch", "processes")
    for load in np.unique(loads):
        index = np.flatnonzero(loads == load)
        probe = index[rows.slices[index].argmin()]
        rest, load_model = index[index != probe], rows.load_models[probe]
        if not len(rest) or load_model is None:
            continue
        one = rows[np.array([probe])].loads
        seen = SeenProbe(one, float(share[probe]), float(rows.log_slowdown[probe]))
        found[rest] = _at(model, load_model, one.times(len(rest)), share[rest], seen)
    return found


def _at(
    model: SweepModel, load_model: LoadModel, loads: Loads, share: Floats, seen: SeenProbe
) -> Floats:
    return model.log_slowdown(load_model, loads, share, model.capacity_from(load_model, [seen]))


def width(held: Held, *, probed: bool = False) -> SlowdownWidth:
    """Return the 90 % and 95 % quantiles of the scores; each model has the same weight.

    Each is the greatest quantile over all ways to leave one model out, because the quantile over so
    few models covers too little on a new model.
    """
    scores = held.scores(probed=probed)
    known = np.isfinite(scores)
    scores, models = scores[known], held.models[known]

    def widest(level: float) -> float:
        found = [
            quantile(scores[models != name], models[models != name].tolist(), level)
            for name in np.unique(models)
        ]
        return round(max(*found, 1e-3), 6)

    return SlowdownWidth(q90=widest(0.9), q95=widest(0.95))


def quantile(values: Floats, models: Sequence[str], level: float) -> float:
    """Return the ``level`` quantile of ``values``; each model has the same total weight."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(model_weights(models)[order])
    index = int(np.searchsorted(reached, level - 1e-9))
    return float(values[order][min(index, len(values) - 1)])
