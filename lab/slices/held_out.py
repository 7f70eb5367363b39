"""Predictions of models left out: the one source of interval widths and of every figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.predictor.families.slices.bundle import LARGE_BATCH, Width
from berth.predictor.families.slices.equivalence import log_slowdowns as rule
from berth.predictor.families.slices.equivalence import mixed
from berth.predictor.families.slices.latent import Latents
from berth.predictor.families.slices.physics import Floats, ShareLaw
from berth.predictor.families.slices.predictor import EASE
from berth.predictor.families.slices.sweep_model import Loads, SeenProbe, SweepModel
from berth.predictor.families.slices.workload import Point
from lab.slices.data import SHARES, Case, Rows, inference_cases
from lab.slices.latent import (
    FamilySpec,
    fit_family,
    predicted,
    slowdowns,
)
from lab.slices.sweep import SweepFit, log_slowdowns, model_weights

LEAST_MODELS = 5
"""With large batches, for a width of their own."""


@dataclass(frozen=True, slots=True)
class Held:
    """One slice of one load whose model was left out; natural logs of t_slice / t_whole."""

    model: str
    slices: int
    measured: float
    predicted: float
    effective: float
    unsteadiness: float
    probed: float | None
    """Predicted with the smallest slice that ran measured; None: this is that slice."""
    gpu: str = ""
    batch: float = 0.0


def latent_held(spec: FamilySpec, trained: Sequence[Case], out: Sequence[Case],
                shares: ShareLaw) -> list[Held]:  # fmt: skip
    """``out`` predicted by a family trained on ``trained``."""
    found = predicted(fit_family(spec, trained, shares), out)
    by_slice = slowdowns(found, shares)
    held = []
    for i, case in enumerate(out):
        if not case.measured:
            continue
        probe = min(case.measured)
        one = Latents(found.sharpness, found.values[:, i : i + 1]).probed(
            [case.measured[probe]], [shares.effective(SHARES[probe])], case.point.unsteadiness
        )
        for g, measured in sorted(case.measured.items()):
            share = shares.effective(SHARES[g])
            informed = None if g == probe else float(one.log_slowdown(np.array([share]))[0])
            said = max(float(by_slice[g][i]), 0.0)
            held.append(
                Held(
                    case.model, g, measured, said, share, case.point.unsteadiness,
                    None if informed is None else max(informed, 0.0), case.workload.gpu,
                    case.point.batch,
                )
            )  # fmt: skip
    return held


def latent_left_out(
    spec: FamilySpec, cases: Sequence[Case], shares_without: Callable[[str], ShareLaw]
) -> list[Held]:
    """Each model of ``cases`` in turn predicted by the others."""
    held: list[Held] = []
    for name in sorted({c.model for c in cases}):
        rest = [c for c in cases if c.model != name]
        out = [c for c in cases if c.model == name]
        held += latent_held(spec, rest, out, shares_without(name))
    return held


def sweep_held(model: SweepModel, out: Rows, shares: ShareLaw) -> list[Held]:
    """``out`` predicted by a sweep model that was trained on others."""
    said = np.maximum(log_slowdowns(model, out, shares), 0.0)
    informed = _informed(model, out, shares)
    return [
        Held(
            out.models[i], out.slices[i], float(out.log_slowdown[i]), float(said[i]),
            shares.effective(SHARES[out.slices[i]]), 0.0,
            None if np.isnan(informed[i]) else max(float(informed[i]), 0.0),
            batch=float(out.loads.batch[i]),
        )
        for i in range(len(out))
    ]  # fmt: skip


def sweep_left_out(fit: SweepFit, rows: Rows) -> list[Held]:
    """``rows`` predicted by the folds of a fit that had not seen their models."""
    held: list[Held] = []
    for fold in fit.folds:
        held += sweep_held(fold.model, rows.take(fold.away), fold.shares)
    return held


def rule_held(out: Rows, shares: ShareLaw) -> list[Held]:
    """``out`` predicted by batch equivalence: only the shares are learnt."""
    points: dict[str, tuple[Point, ...]] = {}
    for case in inference_cases():
        points.setdefault(case.model, case.workload.points)
    held = []
    for i in range(len(out)):
        effective = shares.effective(SHARES[out.slices[i]])
        batch, processes = float(out.loads.batch[i]), int(out.loads.processes[i])
        said = rule(points[out.models[i]], batch, processes, np.array([effective]))
        if said is None:
            raise AssertionError("every load of ParvaGPU stands in a sweep over batches")
        held.append(
            Held(
                out.models[i], out.slices[i], float(out.log_slowdown[i]), float(said[0]),
                effective, 0.0, None, batch=batch,
            )
        )  # fmt: skip
    return held


def rule_left_out(fit: SweepFit, rows: Rows) -> list[Held]:
    """The same with the shares of the folds that had not seen the models."""
    return [h for fold in fit.folds for h in rule_held(rows.take(fold.away), fold.shares)]


def mixed_held(law: Sequence[Held], by_rule: Sequence[Held]) -> list[Held]:
    """Both together, row by row."""
    logs, _ = mixed(np.array([h.predicted for h in law]), np.array([h.predicted for h in by_rule]))
    return [replace(h, predicted=float(log)) for h, log in zip(law, logs, strict=True)]


def large_width(held: Sequence[Held]) -> Width | None:
    """Of large batches alone; None: too few models had such for a quantile."""
    large = [h for h in held if h.batch >= LARGE_BATCH]
    return width(large) if len({h.model for h in large}) >= LEAST_MODELS else None


def _informed(model: SweepModel, rows: Rows, shares: ShareLaw) -> Floats:
    """With a probe on the smallest slice of the same load; NaN for the probes themselves."""
    found: Floats = np.full(len(rows), np.nan)
    loads: dict[tuple[str, float, float], list[int]] = {}
    for i in range(len(rows)):
        key = (rows.models[i], float(rows.loads.batch[i]), float(rows.loads.processes[i]))
        loads.setdefault(key, []).append(i)
    for index in loads.values():
        probe = min(index, key=lambda i: rows.slices[i])
        rest = [i for i in index if i != probe]
        if not rest:
            continue
        law = rows.laws[probe]
        load = Loads(*(a[[probe]] for a in (
            rows.loads.batch, rows.loads.processes, rows.loads.log_whole_s)))  # fmt: skip
        seen = SeenProbe(
            load, shares.effective(SHARES[rows.slices[probe]]), float(rows.log_slowdown[probe])
        )
        share = np.array([shares.effective(SHARES[rows.slices[i]]) for i in rest])
        capacity = model.capacity_from(law, [seen])
        found[rest] = model.log_slowdown(law, load.times(len(rest)), share, capacity)
    return found


def score(held: Held, *, probed: bool) -> float:
    """How far off in units of the interval's difficulty."""
    said = held.probed if probed else held.predicted
    off = abs(held.measured - (held.predicted if said is None else said))
    return max(off - held.unsteadiness, 0.0) / (EASE - float(np.log(held.effective)))


def width(held: Iterable[Held], *, probed: bool = False) -> Width:
    """Quantiles of the scores, models weighing alike; the widest with any one model left out.

    The plain quantile over so few models covers less than it says on the next one.
    """
    rows = [h for h in held if not probed or h.probed is not None]
    models = [h.model for h in rows]
    scores = [score(h, probed=probed) for h in rows]

    def widest(level: float) -> float:
        found = []
        for name in sorted(set(models)):
            kept = [(s, m) for s, m in zip(scores, models, strict=True) if m != name]
            found.append(quantile(np.array([s for s, _ in kept]), [m for _, m in kept], level))
        return round(max(*found, 1e-3), 6)

    return Width(q90=widest(0.9), q95=widest(0.95))


def quantile(values: Floats, models: Sequence[str], level: float) -> float:
    """The value that ``level`` of the weight is at or below, models weighing alike."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(model_weights(models)[order])
    index = int(np.searchsorted(reached, level - 1e-9))
    return float(values[order][min(index, len(values) - 1)])
