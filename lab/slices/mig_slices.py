"""Slow-downs on MIG slices of models that nothing was fitted on, and the slice predictor's bundle.

Leave-one-model-out, nested: effective shares, the correction and every Gaussian process are learnt
from the other models only. The width of an interval comes from the held-out
scores of the other models (cross-conformal: those scores' predictors had seen this model).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.plugin.report.progress_bars import step_bar
from berth.predictor.families.history.times_there import MEMORY_MARGIN
from berth.predictor.families.slices.bundle import LARGE_BATCH, SlowdownWidth
from berth.predictor.families.slices.predictor import BATCHES, PAIR, SWEEP, TYPICAL
from lab.experiments.experiment import Options, learn
from lab.ground.evaluate import Family, held_out
from lab.ground.figures import Figures, figures
from lab.ground.report import Report, Section, figure_cells, figure_titles
from lab.ground.splits import Split, group_mean
from lab.ground.table import Floats, Strings, stacked
from lab.slices import slice_baselines, slice_bundle
from lab.slices.latent import FAMILIES
from lab.slices.slice_bundle import as_recorded, cases_of, shares_without
from lab.slices.slice_cases import SliceRows, fits_figures, rows_of, sweep_rows, training_cases
from lab.slices.slice_errors import (
    FROM_USE,
    Held,
    each_model,
    large_width,
    latent_left_out,
    rule_held,
    sweep_held,
    sweeps_left_out,
    width,
    wrong_picks,
)
from lab.slices.sweep import LOAD_MODEL_ALONE, fit_shares

SPLIT = "leave-one-model-out, nested"
MISO, PARVA = "MISO, A100 40 GB, training", "ParvaGPU, A100 80 GB, inference"
MISO_GPU = "A100-40GB"
STEPS = 6
_SEES = {
    "utilisation": "one step time, SM and memory utilisation on the whole GPU",
    "use": "SM and memory utilisation on the whole GPU, as monitoring records them",
    "gpu-use": "SM utilisation on the whole GPU, as monitoring records it",
    TYPICAL: "one time on the whole GPU",
    SWEEP: "times on the whole GPU over batches and processes",
    PAIR: "times on the whole GPU over batches, one process, and one with two processes",
    BATCHES: "times on the whole GPU over batches, one process",
}
BY_MODEL = ("utilisation", SWEEP, PAIR, BATCHES)
_SHOWN = ("rows", "median_error", "mean_error", "p90_error", "coverage", "interval_factor")


@dataclass(frozen=True, slots=True)
class SliceResult:
    """Figures of one method on one data set; errors are of the slow-down t_slice / t_whole."""

    task: str
    method: str
    sees: str
    figures: Figures
    """Coverage and factor are of 90 % intervals; each model has the same weight."""
    median_speed_error: float
    mean_speed_error: float
    """Errors of the speed relative to the whole GPU, t_whole / t_slice."""
    coverage_95: float | None
    coverage_by: dict[str, tuple[int, float]]
    """Rows and the share of them within the 90 % interval, by situation."""
    by_model: dict[str, tuple[float, float]]
    """Median and mean error."""
    wrong_picks: tuple[int, float, float] | None = None
    """Loads, and the shares of them whose slice under a limit of 1.5 times the whole GPU's time is
    chosen too large and too small; None with probes."""


def train(options: Options) -> str:
    """Write the bundle, fitted on MISO and ParvaGPU, and return a line of summary."""
    manifest = learn(options, slice_bundle.train, slice_bundle.STEPS)
    rows = sum(entry.rows for entry in manifest.methods)
    return f"{manifest.id}: {len(manifest.methods)} methods on {rows} rows"


def evaluate(options: Options) -> Report:
    """Report the errors of all methods and baselines on both data sets."""
    with step_bar("evaluating", STEPS) as advance:
        results = all_results(options.seed, advance)
    fits, of_jobs = fits_figures(), fits_figures(MEMORY_MARGIN)
    header = ("method", *figure_titles(_SHOWN), "in 95 %", "error of speed", "sees")
    sections = [
        Section(task, header, [_cells(one) for one in results if one.task == task])
        for task in (MISO, PARVA)
    ]
    sections += [_by_model(task, results) for task in (MISO, PARVA)]
    shipped = {
        f"{one.task.partition(',')[0]}: {one.method}: {words}": getattr(one.figures, key)
        for one in results
        if one.method.startswith(tuple(_SEES))
        for words, key in (("median error", "median_error"), ("mean error", "mean_error"))
    }
    by_situation = [
        f"In the 90 % interval (rows), {one.task.partition(',')[0]}, {one.method}: "
        + ", ".join(f"{name} {share:.0%} ({rows})" for name, (rows, share) in by.items())
        for one in results
        if (by := one.coverage_by)
    ]
    picks = [
        f"Smallest slice within 1.5 times the whole GPU's time, {one.task.partition(',')[0]}, "
        f"{one.method}, {loads} loads: {large:.0%} too large, {small:.0%} too small"
        for one in results
        if one.wrong_picks is not None
        for loads, large, small in (one.wrong_picks,)
    ]
    fit_words = [
        f"Fits, from the memory {what}: {one.predicted_but_failed} predicted to fit and failed (of "
        f"{one.predicted_but_failed + one.refused_and_failed} that failed), {one.refused_but_ran} "
        f"refused that would have run (of {one.refused_but_ran + one.predicted_and_ran} that ran)."
        for what, one in (
            ("reserved on the whole GPU", fits),
            (f"recorded of jobs, times {MEMORY_MARGIN:g}", of_jobs),
        )
    ]
    return Report(
        "Slow-downs on MIG slices",
        (f"Split: {SPLIT}; errors are |predicted / measured - 1| of t_slice / t_whole.",),
        tuple(sections),
        {"split": SPLIT, "seed": options.seed, "results": results, "fits": fits},
        shipped,
        (*by_situation, *picks, *fit_words),
    )


def _by_model(task: str, results: Sequence[SliceResult]) -> Section:
    """Return the errors of each model left out, by the methods that are shipped."""
    shown = [one for one in results if one.task == task and one.method in BY_MODEL]
    models = sorted({model for one in shown for model in one.by_model})
    rows = [
        (model, *(
            " / ".join(f"{error:.1%}" for error in one.by_model[model])
            if model in one.by_model else "-"
            for one in shown
        ))
        for model in models
    ]  # fmt: skip
    header = ("model left out", *(one.method for one in shown))
    return Section(f"{task}: median / mean error by model", header, rows)


def all_results(seed: int, advance: Callable[[str], None]) -> list[SliceResult]:
    """Return the results of all methods and baselines."""
    results: list[SliceResult] = []
    for spec in FAMILIES:
        held = latent_left_out(spec, cases_of(spec), shares_without)
        if spec.name in FROM_USE:
            held = as_recorded(held)
        # ``typical`` is fitted on both data sets, and both have a model called bert.
        results += _both(MISO, spec.name, held[held.gpus == MISO_GPU], held)
    advance("latent")
    sweeps = sweeps_left_out(each_model(sweep_rows()), seed)
    for name, held in sweeps.items():
        results += _both(PARVA, name, held, held)
    miso = rows_of(training_cases())
    by_rule = [rule_held(miso.of({name}), shares_without(name)) for name in miso.names]
    results += [
        replace(one, sees=f"{one.sees}; SM utilisation")
        for one in _both(MISO, BATCHES, stacked(by_rule), sweeps[BATCHES])
    ]
    advance("sweep")
    by_family = sweeps_left_out(slice_baselines.families(sweep_rows()), seed)[SWEEP]
    results.append(_result(PARVA, "sweep, leaving out the family", _SEES[SWEEP], by_family))
    advance("families")
    for task, rows, baselines in (
        (MISO, miso, slice_baselines.training_baselines()),
        (PARVA, sweep_rows(), slice_baselines.inference_baselines()),
    ):
        results += [_baseline(task, rows, baseline) for baseline in baselines]
    advance("baselines")
    return results


def load_model_alone() -> Held:
    """Return the sweep method without a correction; effective shares of the other models."""
    rows = sweep_rows()
    return stacked(
        [
            sweep_held(LOAD_MODEL_ALONE, rows.of(away), fit_shares(rows.of({*rows.names} - away)))
            for away in each_model(rows)
        ]
    )


def _baseline(task: str, rows: SliceRows, baseline: Family[SliceRows]) -> SliceResult:
    out = held_out(baseline, rows, Split("unseen model", "models", None).folds(rows))
    asked = rows[out.rows]
    method = (task, baseline.name, baseline.what)
    return _scored(method, asked.models, asked.log_slowdown, out.log_predicted)


def _both(task: str, name: str, held: Held, calibration: Held) -> list[SliceResult]:
    probed = held[np.isfinite(held.probed)]
    sees = "the same, and the smallest slice that ran, measured; the other slices are scored"
    return [
        _result(task, name, _SEES[name], held, calibration),
        _result(
            task, f"{name} + probe", sees, replace(probed, predicted=probed.probed), calibration,
            probed=True,
        ),
    ]  # fmt: skip


def _result(
    task: str,
    name: str,
    sees: str,
    held: Held,
    calibration: Held | None = None,
    *,
    probed: bool = False,
) -> SliceResult:
    made = _scored((task, name, sees), held.models, held.measured, held.predicted)
    if calibration is None:
        return made
    off, models = np.abs(held.measured - held.predicted), held.models.tolist()
    is_large = held.batch >= LARGE_BATCH
    q90, q95 = np.zeros((2, len(held)))
    for model in np.unique(held.models):
        of_others = _widths(calibration[calibration.models != model], probed=probed)
        for rows, found in zip((~is_large, is_large), of_others, strict=True):
            here = rows & (held.models == model)
            q90[here], q95[here] = found.q90, max(found.q90, found.q95)
    half, half_95 = (q * held.difficulty + held.unsteadiness for q in (q90, q95))
    inside = off <= half
    situations = {f"{g}g": held.slices == g for g in np.unique(held.slices).tolist()} | {
        f"batch {sign} {LARGE_BATCH:.0f}": rows
        for sign, rows in (("<", ~is_large), (">=", is_large))
        if rows.any()
    }
    return replace(
        made,
        wrong_picks=None if probed else wrong_picks(held),
        figures=replace(
            made.figures,
            coverage=group_mean(inside.astype(float), models),
            interval_factor=float(np.median(np.exp(half))),
        ),
        coverage_95=group_mean((off <= half_95).astype(float), models),
        coverage_by={
            name: (int(rows.sum()), float(inside[rows].mean()))
            for name, rows in sorted(situations.items())
        },
    )


def _widths(others: Held, *, probed: bool) -> tuple[SlowdownWidth, SlowdownWidth]:
    """Return the widths for all batches and for large batches (at least as wide)."""
    plain, large = width(others, probed=probed), None if probed else large_width(others)
    if large is None:
        return plain, plain
    return plain, SlowdownWidth(q90=max(plain.q90, large.q90), q95=max(plain.q95, large.q95))


def _scored(
    method: tuple[str, str, str], models: Strings, measured: Floats, predicted: Floats
) -> SliceResult:
    """Return the result without intervals; ``method``: task, name and the data it uses."""
    error, speed = np.abs(np.expm1(predicted - measured)), np.abs(np.expm1(measured - predicted))
    return SliceResult(
        *method,
        figures(measured, predicted, models),
        float(np.median(speed)),
        float(speed.mean()),
        None,
        {},
        {
            str(m): (float(np.median(error[models == m])), float(error[models == m].mean()))
            for m in np.unique(models)
        },
    )


def _cells(one: SliceResult) -> Sequence[str]:
    return (
        one.method,
        *figure_cells(one.figures, _SHOWN),
        "-" if one.coverage_95 is None else f"{one.coverage_95:.1%}",
        f"{one.median_speed_error:.1%} / {one.mean_speed_error:.1%}",
        one.sees,
    )
