"""``python -m lab mig-slices``: slice slow-downs of models that nothing was fitted on.

Leave-one-model-out, nested: effective shares, the correction and its kind, and every Gaussian
process are learnt from the other models only. The width of an interval comes from the held-out
scores of the other models (cross-conformal: those scores' predictors had seen this model).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from berth.predictor.families.program.ceilings import Floats
from berth.predictor.families.slices.bundle import LARGE_BATCH, Width
from berth.predictor.families.slices.predictor import EASE
from lab.slices import baselines as rivals
from lab.slices.data import Rows, sweep_rows, training_cases
from lab.slices.fits import FitsFigures, fits_figures
from lab.slices.held_out import (
    Held,
    large_width,
    latent_left_out,
    mixed_held,
    rule_held,
    sweep_held,
    width,
)
from lab.slices.latent import FAMILIES
from lab.slices.sweep import SweepFit, fit_shares, fit_sweep, sweep_model
from lab.slices.train import TIME, cases_of, shares_without

SPLIT = "leave-one-model-out, nested"
MISO_TASK = "MISO, A100 40 GB, training"
PARVA_TASK = "ParvaGPU, A100 80 GB, inference"
MISO_GPU = "A100-40GB"
STEPS = 6


@dataclass(frozen=True, slots=True)
class SliceFigures:
    """One method on one data set; errors of the slow-down, ``|predicted / measured - 1|``."""

    rows: int
    median_error: float
    mean_error: float
    p90_error: float
    median_speed_error: float
    mean_speed_error: float
    """Of its inverse, the speed relative to the whole GPU."""
    coverage_90: float | None
    coverage_95: float | None
    factor_90: float | None
    """Median over rows of upper over middle."""
    coverage_by: dict[str, tuple[int, float]]
    """Rows and the share of them within the 90 % interval, by situation."""


@dataclass(frozen=True, slots=True)
class SliceResult:
    """A method, what it is told, and how good it was."""

    task: str
    method: str
    told: str
    figures: SliceFigures
    by_model: dict[str, tuple[float, float]]
    """Median and mean error."""


@dataclass(frozen=True, slots=True)
class SliceEvaluation:
    """All figures with their split."""

    split: str
    seed: int
    results: tuple[SliceResult, ...]
    chosen: dict[str, int]
    """Corrections of the sweep law and how many outer folds chose them."""
    fits: FitsFigures

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "shipped": self.shipped()}

    def shipped(self) -> dict[str, float]:
        """The shipped methods' figures by name, for a bundle's manifest."""
        found: dict[str, float] = {}
        for result in self.results:
            prefix = f"{result.task.partition(',')[0]}: {result.method}"
            if result.method.startswith(tuple(_OURS)):
                found[f"{prefix}: median error"] = result.figures.median_error
                found[f"{prefix}: mean error"] = result.figures.mean_error
        return found


_OURS = ("counters", "utilisation", "sweep", "batches", TIME)
_TOLD = {
    "counters": "one step time, SM and memory utilisation, power, all on the whole GPU",
    "utilisation": "one step time, SM and memory utilisation on the whole GPU",
    "time": "one step time on the whole GPU",
    "sweep": "times on the whole GPU over batches and processes",
    "batches": "times on the whole GPU over batches, one process",
}


def evaluate(seed: int = 0, advance: Callable[[str], None] = lambda _: None) -> SliceEvaluation:
    """All methods and rivals on both data sets. Raises ToolMissing where they are absent."""
    results: list[SliceResult] = []
    for spec in FAMILIES:
        held = latent_left_out(spec, cases_of(spec), shares_without)
        # ``time`` is trained on both data sets, and both have a model called bert.
        results += _both(MISO_TASK, spec.name, [h for h in held if h.gpu == MISO_GPU], held)
        advance(spec.name)
    results.append(_result(MISO_TASK, "counters, mean step time", _TOLD["counters"], _mean_steps()))
    sweep, alone, chosen = _sweeps(seed, lambda rows: rows.names)
    results += _both(PARVA_TASK, "sweep", sweep, sweep)
    results += _both(PARVA_TASK, "batches", alone, alone)
    advance("sweep")
    families, _, _ = _sweeps(seed, rivals.families)
    results.append(_result(PARVA_TASK, "sweep, leaving out the family", _TOLD["sweep"], families))
    advance("families")
    results.append(_result(PARVA_TASK, "sweep, law alone", _TOLD["sweep"], law_alone()))
    for rival in rivals.training_rivals(seed):
        results.append(_result(MISO_TASK, rival.name, rival.told, rival.held))
    for rival in rivals.inference_rivals(seed):
        results.append(_result(PARVA_TASK, rival.name, rival.told, rival.held))
    advance("rivals")
    return SliceEvaluation(SPLIT, seed, tuple(results), chosen, fits_figures())


def _sweeps(
    seed: int, parts: Callable[[Rows], Sequence[str | frozenset[str]]]
) -> tuple[list[Held], list[Held], dict[str, int]]:
    rows, alone = sweep_rows(), sweep_rows(one_process=True)
    held: list[Held] = []
    held_alone: list[Held] = []
    chosen: dict[str, int] = {}
    for part in parts(rows):
        away = frozenset({part}) if isinstance(part, str) else part
        fitted = fit_sweep(rows.take(set(rows.names) - away), seed)
        chosen[fitted.choice.name] = chosen.get(fitted.choice.name, 0) + 1
        held += sweep_held(fitted.model, rows.take(away), fitted.shares)
        held_alone += _batches_held(fitted, alone, away)
    return held, held_alone, chosen


def _batches_held(fitted: SweepFit, alone: Rows, away: frozenset[str]) -> list[Held]:
    """The law and batch equivalence together."""
    out = alone.take(away)
    law = sweep_held(fitted.model, out, fitted.shares)
    return mixed_held(law, rule_held(out, fitted.shares))


def law_alone() -> list[Held]:
    """The sweep method without a correction; effective shares of the other models."""
    rows = sweep_rows()
    held: list[Held] = []
    for name in rows.names:
        shares = fit_shares(rows.take(set(rows.names) - {name}))
        held += sweep_held(sweep_model(None), rows.take({name}), shares)
    return held


def _mean_steps() -> list[Held]:
    """The same predictions held against the ratio of mean step times."""
    spec = FAMILIES[0]
    measured = {
        (c.model, c.point.batch, g): y for c in training_cases() for g, y in c.mean_measured.items()
    }
    batches = [c.point.batch for name in sorted({c.model for c in training_cases()})
               for c in training_cases() if c.model == name for _ in c.measured]  # fmt: skip
    found = []
    for h, batch in zip(
        latent_left_out(spec, training_cases(), shares_without), batches, strict=True
    ):
        found.append(
            Held(h.model, h.slices, measured[h.model, batch, h.slices], h.predicted, h.effective,
                 h.unsteadiness, None)
        )  # fmt: skip
    return found


def _both(task: str, name: str, held: list[Held], calibration: list[Held]) -> list[SliceResult]:
    probed = [h for h in held if h.probed is not None]
    return [
        _result(task, name, _TOLD[name], held, calibration),
        _result(
            task, f"{name} + probe", "the same, and the smallest slice that ran, measured; "
            "the other slices are scored", probed, calibration, probed=True,
        ),
    ]  # fmt: skip


def _result(
    task: str,
    name: str,
    told: str,
    held: Sequence[Held],
    calibration: Sequence[Held] | None = None,
    *,
    probed: bool = False,
) -> SliceResult:
    said = np.array([h.probed if probed and h.probed is not None else h.predicted for h in held])
    measured = np.array([h.measured for h in held])
    error = np.abs(np.expm1(said - measured))
    speed = np.abs(np.expm1(measured - said))
    models = np.array([h.model for h in held])
    inside = None if calibration is None else _coverage(held, said, calibration, probed)
    return SliceResult(
        task,
        name,
        told,
        SliceFigures(
            rows=len(held),
            median_error=float(np.median(error)),
            mean_error=float(error.mean()),
            p90_error=float(np.quantile(error, 0.9)),
            median_speed_error=float(np.median(speed)),
            mean_speed_error=float(speed.mean()),
            coverage_90=None if inside is None else inside[0],
            coverage_95=None if inside is None else inside[1],
            factor_90=None if inside is None else inside[2],
            coverage_by={} if inside is None else inside[3],
        ),
        {
            str(m): (float(np.median(error[models == m])), float(error[models == m].mean()))
            for m in sorted(set(models))
        },
    )


def _coverage(
    held: Sequence[Held], said: Floats, calibration: Sequence[Held], probed: bool
) -> tuple[float, float, float, dict[str, tuple[int, float]]]:
    """Shares of rows within the 90 and 95 % intervals, models weighing alike; median factor.

    And the first by situation, rows weighing alike.
    """
    seen: dict[str, list[bool]] = {}
    inside: dict[str, list[tuple[bool, bool]]] = {}
    factors = []
    widths = {name: _widths(calibration, name, probed=probed) for name in {h.model for h in held}}
    for h, log in zip(held, said, strict=True):
        hard = EASE - float(np.log(h.effective))
        plain, large = widths[h.model]
        q = large if h.batch >= LARGE_BATCH else plain
        half, half_95 = (w * hard + h.unsteadiness for w in (q.q90, max(q.q90, q.q95)))
        off = abs(h.measured - log)
        inside.setdefault(h.model, []).append((off <= half, off <= half_95))
        factors.append(np.exp(half))
        size = f"batch {'>=' if h.batch >= LARGE_BATCH else '<'} {LARGE_BATCH:.0f}"
        for situation in (size, f"{h.slices}g"):
            seen.setdefault(situation, []).append(off <= half)
    shares = np.mean([np.mean(rows, axis=0) for rows in inside.values()], axis=0)
    by = {name: (len(rows), float(np.mean(rows))) for name, rows in sorted(seen.items())}
    return float(shares[0]), float(shares[1]), float(np.median(factors)), by


def _widths(calibration: Sequence[Held], name: str, *, probed: bool) -> tuple[Width, Width]:
    """From the other models: of all batches, and of large ones (never narrower)."""
    others = [h for h in calibration if h.model != name]
    plain = width(others, probed=probed)
    large = None if probed else large_width(others)
    if large is None:
        return plain, plain
    return plain, Width(q90=max(plain.q90, large.q90), q95=max(plain.q95, large.q95))
