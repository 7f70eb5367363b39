"""Slow-downs on MIG slices of models that nothing was fitted on, and the slice predictor's bundle.

Leave-one-model-out, nested: effective shares and every Gaussian process are learnt from the other
models only. The width of an interval comes from the held-out scores of the other models
(cross-conformal: those scores' predictors had seen this model).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from berth.plugin.report.progress_bars import step_bar
from berth.policies.mig.recommend import room_to_spare
from berth.predictor.families.history.times_there import MEMORY_MARGIN
from berth.predictor.families.slices.bundle import LARGE_BATCH
from berth.predictor.families.slices.predictor import BATCHES, SWEEP
from lab.experiments.experiment import Options, learn
from lab.ground.evaluate import Result
from lab.ground.figures import figures
from lab.ground.report import Report, results_section
from lab.ground.table import Floats
from lab.slices import slice_bundle
from lab.slices.fitting import METHODS
from lab.slices.slice_cases import fits_figures, inference_cases, training_cases
from lab.slices.slice_errors import (
    Held,
    each_family,
    large_width,
    left_out,
    left_out_of,
    too_small,
    width,
)

SPLIT = "leave-one-model-out, nested"
MISO, PARVA = "MISO, A100 40 GB, training", "ParvaGPU, A100 80 GB, inference"
MISO_GPU = "A100-40GB"
STEPS = 3
PAIR = "pair"
"""``sweep`` of one process, of which one run of two was timed beside times over batches."""
LIMITS = (1.25, 1.5, 2.0, 3.0)
"""Limits on the slow-down under which the smallest slice is picked."""
SHIPPED = (*METHODS, SWEEP, PAIR, BATCHES)
_SHOWN = ("rows", "median_error", "mean_error", "p90_error", "coverage", "interval_factor")


def train(options: Options) -> str:
    """Write the bundle, fitted on MISO and ParvaGPU, and return a line of summary."""
    manifest = learn(options, slice_bundle.train, slice_bundle.STEPS)
    rows = sum(entry.rows for entry in manifest.methods)
    return f"{manifest.id}: {len(manifest.methods)} methods on {rows} rows"


def evaluate(options: Options) -> Report:
    """Report the errors of all methods, and of the mean slow-down, on both data sets."""
    with step_bar("evaluating", STEPS) as advance:
        results = all_results(advance)
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
    for name in (*METHODS, SWEEP, BATCHES):
        held = left_out(name)
        small, large, picks = too_small(held, room_to_spare, LIMITS)
        plain, *_, of_plain = too_small(held, lambda _: 0.0, LIMITS)
        fit_words.append(
            f"Smallest slice under a limit by {name}: {small} of {picks} picks are too small "
            f"({small / picks:.0%}; {plain / of_plain:.0%} by the middle), {large} too large."
        )
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


def all_results(advance: Callable[[str], None]) -> list[Result]:
    """Return the results of all methods by data set (``split``) and method (``family``)."""
    results: list[Result] = []
    for name in METHODS:
        held = left_out(name)
        # ``typical`` is fitted on both data sets, and both have a model called bert.
        results += _both(MISO, name, held[held.gpus == MISO_GPU], held)
    advance("latent")
    sweeps, batches = left_out(SWEEP), left_out(BATCHES)
    is_pair = sweeps.loads >= len(inference_cases())
    results += _both(PARVA, SWEEP, sweeps[~is_pair], sweeps)
    results += _both(PARVA, PAIR, sweeps[is_pair], sweeps)
    results += _both(PARVA, BATCHES, batches, batches)
    models = sorted({case.model for case in training_cases()})
    miso = left_out_of(BATCHES, training_cases(), [frozenset({name}) for name in models])
    results += _both(MISO, BATCHES, miso, batches)
    advance("sweep")
    by_family = left_out(SWEEP, each_family)
    by_family = by_family[by_family.loads < len(inference_cases())]
    results.append(_result(PARVA, "sweep, leaving out the family", by_family))
    results.append(_mean_slowdown(MISO, miso))
    results.append(_mean_slowdown(PARVA, sweeps[~is_pair]))
    advance("families")
    return results


def _mean_slowdown(task: str, held: Held) -> Result:
    """Return the plain rule: the mean slow-down of a slice on the other models."""
    slowdown, predicted = np.exp(held.measured), np.zeros(len(held))
    for model in np.unique(held.models):
        for g in np.unique(held.slices):
            own = (held.models == model) & (held.slices == g)
            others = (held.models != model) & (held.slices == g)
            predicted[own] = np.log(slowdown[others].mean())
    return Result(task, "mean per slice", figures(held.measured, predicted, held.models))


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
    is_large, q = held.batch >= LARGE_BATCH, np.zeros(len(held))
    for model in np.unique(held.models):
        others = calibration[calibration.models != model]
        plain, large = width(others, probed=probed), None if probed else large_width(others)
        own = held.models == model
        q[own] = plain
        if large is not None:  # large batches have at least the width of all
            q[own & is_large] = max(plain, large)
    return np.asarray(q * held.difficulty + held.unsteadiness)
