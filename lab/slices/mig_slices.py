"""Slow-downs on MIG slices of models that nothing was fitted on, and the slice predictor's bundle.

Leave-one-model-out, nested: effective shares, the correction and every Gaussian process are learnt
from the other models only. The width of an interval comes from the held-out
scores of the other models (cross-conformal: those scores' predictors had seen this model).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from berth.plugin.report.progress_bars import step_bar
from berth.predictor.families.history.times_there import MEMORY_MARGIN
from berth.predictor.families.slices.bundle import LARGE_BATCH
from berth.predictor.families.slices.predictor import BATCHES, PAIR, SWEEP
from lab.experiments.experiment import Options, learn
from lab.ground.evaluate import Family, Result, held_out
from lab.ground.figures import figures
from lab.ground.report import Report, results_section
from lab.ground.splits import Split
from lab.ground.table import Floats, stacked
from lab.slices import slice_bundle
from lab.slices.latent import FAMILIES
from lab.slices.slice_bundle import as_recorded, cases_of, shares_without
from lab.slices.slice_cases import SliceRows, fits_figures, rows_of, sweep_rows, training_cases
from lab.slices.slice_errors import (
    FROM_USE,
    Held,
    each_family,
    each_model,
    large_width,
    latent_left_out,
    rule_held,
    sweeps_left_out,
    width,
)

SPLIT = "leave-one-model-out, nested"
MISO, PARVA = "MISO, A100 40 GB, training", "ParvaGPU, A100 80 GB, inference"
MISO_GPU = "A100-40GB"
STEPS = 4
SHIPPED = (*(spec.name for spec in FAMILIES), SWEEP, PAIR, BATCHES)
_SHOWN = ("rows", "median_error", "mean_error", "p90_error", "coverage", "interval_factor")


def train(options: Options) -> str:
    """Write the bundle, fitted on MISO and ParvaGPU, and return a line of summary."""
    manifest = learn(options, slice_bundle.train, slice_bundle.STEPS)
    rows = sum(entry.rows for entry in manifest.methods)
    return f"{manifest.id}: {len(manifest.methods)} methods on {rows} rows"


def evaluate(options: Options) -> Report:
    """Report the errors of all methods, and of the mean slow-down, on both data sets."""
    with step_bar("evaluating", STEPS) as advance:
        results = all_results(options.seed, advance)
    fits, of_jobs = fits_figures(), fits_figures(MEMORY_MARGIN)
    shipped = {
        f"{one.split.partition(',')[0]}: {one.family}: {words}": getattr(one.figures, key)
        for one in results
        if one.family.startswith(SHIPPED)
        for words, key in (("median error", "median_error"), ("mean error", "mean_error"))
    }
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
        tuple(
            results_section(task, [one for one in results if one.split == task], _SHOWN)
            for task in (MISO, PARVA)
        ),
        {"split": SPLIT, "seed": options.seed, "results": results, "fits": fits},
        shipped,
        tuple(fit_words),
    )


def all_results(seed: int, advance: Callable[[str], None]) -> list[Result]:
    """Return the results of all methods by data set (``split``) and method (``family``)."""
    results: list[Result] = []
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
    results += _both(MISO, BATCHES, stacked(by_rule), sweeps[BATCHES])
    advance("sweep")
    by_family = sweeps_left_out(each_family(sweep_rows()), seed)[SWEEP]
    results.append(_result(PARVA, "sweep, leaving out the family", by_family))
    advance("families")
    results += [_mean_slowdown(task, rows) for task, rows in ((MISO, miso), (PARVA, sweep_rows()))]
    advance("mean")
    return results


def _mean_slowdown(task: str, rows: SliceRows) -> Result:
    """Return the plain rule: the same slow-down of a slice for everybody."""

    def predict(learnt: SliceRows, asked: SliceRows, _: int) -> Floats:
        slowdown = np.exp(learnt.log_slowdown)
        return np.log([slowdown[learnt.slices == g].mean() for g in asked.slices])

    rule: Family[SliceRows] = Family("mean per slice", predict)
    out = held_out(rule, rows, Split("unseen model", "models", None).folds(rows))
    asked = rows[out.rows]
    return Result(task, rule.name, figures(asked.log_slowdown, out.log_predicted, asked.models))


def _both(task: str, name: str, held: Held, calibration: Held) -> list[Result]:
    """Return a method without and with a probe: the smallest slice that ran, measured."""
    probed = held[np.isfinite(held.probed)]
    if not calibration.probe_helps:  # served without it
        return [
            _result(task, name, held, calibration),
            Result(
                task, f"{name}, the rows of + probe",
                figures(
                    probed.measured, probed.predicted, probed.models,
                    log_width=_half_widths(probed, calibration),
                ),
            ),
        ]  # fmt: skip
    half = _half_widths(probed, calibration, probed=True)
    return [
        _result(task, name, held, calibration),
        Result(
            task, f"{name} + probe",
            figures(probed.measured, probed.probed, probed.models, log_width=half),
        ),
    ]  # fmt: skip


def _result(task: str, name: str, held: Held, calibration: Held | None = None) -> Result:
    half = None if calibration is None else _half_widths(held, calibration)
    return Result(
        task, name, figures(held.measured, held.predicted, held.models, log_width=half)
    )  # fmt: skip


def _half_widths(held: Held, calibration: Held, *, probed: bool = False) -> Floats:
    """Return the half width of each row's 90 % interval, from the other models' scores."""
    is_large, q90 = held.batch >= LARGE_BATCH, np.zeros(len(held))
    for model in np.unique(held.models):
        others = calibration[calibration.models != model]
        plain, large = width(others, probed=probed), None if probed else large_width(others)
        own = held.models == model
        q90[own] = plain.q90
        if large is not None:  # large batches have at least the width of all
            q90[own & is_large] = max(plain.q90, large.q90)
    return np.asarray(q90 * held.difficulty + held.unsteadiness)
