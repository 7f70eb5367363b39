"""Single operators and whole models on GPUs that nothing was fitted on (``silicon_held_out``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from berth.pilot.errors import ToolMissing
from berth.plugin.report.progress_bars import step_bar
from berth.predictor.core.arrays import Floats
from lab.experiments.experiment import Options, learn
from lab.ground.evaluate import Result
from lab.ground.figures import figures
from lab.ground.report import Report, results_section
from lab.operators import operator_bundle, whole_models
from lab.operators.fit_operators import FULL, Size, fit
from lab.operators.operator_bundle import (
    HALF_WIDTH,
    MODEL_WIDTH,
    group_widths,
    in_memory,
    width_figures,
)
from lab.operators.operator_rows import Rows, rows
from lab.operators.silicon_held_out import choose_power, left_out, width_of, without
from lab.operators.whole_models import COMPILED, Predicted

LEFT_OUT = "silicon left out"
MODELS = "whole models, silicon left out"
IMAGES = "image models, no row of them fitted"
OURS = "physics x utilisation"
SHIPPED_GPUS = ("l4-24gb", "a100-pcie-80gb")
"""GPUs whose figures stand on the model card."""
CLASSES: Mapping[str, tuple[str, ...]] = {
    "bmm": ("bmm",), "linear": ("linear",), "convolution": ("conv",), "softmax": ("softmax",),
    "layer norm": ("ln",),
    "element-wise": ("add", "addu", "div", "divu", "gelu", "mul", "mulu", "pow", "powu", "relu",
                     "tanh"),
}  # fmt: skip
SHOWN = ("rows", "median_error", "mean_error", "bias")
STEPS = 9


def operators_report(
    seed: int, advance: Callable[..., None] = lambda *_: None, size: Size = FULL
) -> Report:
    """Return the whole report; sections without their data or libraries are named in its notes."""
    given = rows()
    held = left_out(seed, size, advance)
    results = _by_part(LEFT_OUT, OURS, _classes(held.rows, held.seconds))
    skipped: dict[str, str] = {}
    widths: dict[str, float] = {}
    for group, width in group_widths(held).items():
        widths |= width_figures(group.value, width)
    try:
        apart = whole_models.language_models(lambda chip: without(chip, seed, size))
        results += _models(MODELS, apart)
        plain = apart[apart.part != COMPILED]
        widths |= width_figures(MODEL_WIDTH, width_of(plain.measured / plain.predicted, plain.gpu))
    except ToolMissing as missing:
        skipped[MODELS] = str(missing)
    advance("whole models")
    try:
        fitted = in_memory(fit(given, choose_power(seed), seed, size), given)
        images = whole_models.image_models(fitted)
        results += _by_part(IMAGES, OURS, images)
        widths |= width_figures(
            HALF_WIDTH, width_of(images.measured / images.predicted, images.gpu)
        )
    except ToolMissing as missing:
        skipped[IMAGES] = str(missing)
    advance("image models")
    power = {
        name: f"{constants.watts:g} W, exponent {constants.gamma:g}"
        for name, constants in held.power.items()
    }
    return _report(seed, results, power, widths, skipped)


def _report(
    seed: int,
    results: list[Result],
    power: Mapping[str, str],
    widths: Mapping[str, float],
    skipped: Mapping[str, str],
) -> Report:
    shipped = {
        f"{one.split}, {one.rows_of.replace(': ', ', ')}: {name} error": value
        for one in results
        if one.family == OURS
        and (one.rows_of.split(":")[0] in SHIPPED_GPUS or one.split in (MODELS, IMAGES))
        for name, value in (
            ("median", one.figures.median_error), ("mean", one.figures.mean_error)
        )
    }  # fmt: skip
    return Report(
        "Operators on GPUs never seen, and whole models as their sum",
        ("Errors are |predicted / measured - 1|; fp32 but for the image models.",),
        tuple(
            results_section(
                split, [one for one in results if one.split == split], SHOWN, rows_of="GPU: part"
            )
            for split in dict.fromkeys(one.split for one in results)
        ),
        {"seed": seed, "results": results, "power": power, "skipped": skipped},
        {**shipped, **widths},
        (
            "Power limit chosen without the silicon named:",
            *(f"  {name}: {constants}" for name, constants in power.items()),
            *(f"left out, {name}: {why}" for name, why in skipped.items()),
        ),
    )  # fmt: skip


def _classes(given: Rows, seconds: Floats) -> Predicted:
    """Return measured and predicted seconds of the rows, by GPU and class of operators."""
    class_of = {name: part for part, names in CLASSES.items() for name in names}
    part = np.array([class_of.get(str(name), "other") for name in given.operator])
    return Predicted(given.gpu, part, given.seconds, seconds)


def _by_part(split: str, method: str, given: Predicted, suffix: str = "") -> list[Result]:
    """Return results by GPU: all its rows, then each part."""
    found = []
    for gpu in np.unique(given.gpu).tolist():
        here = given[given.gpu == gpu]
        found.append(_result(split, method, f"{gpu}: all{suffix}", here))
        found += [
            _result(split, method, f"{gpu}: {part}{suffix}", here[here.part == part])
            for part in np.unique(here.part).tolist()
        ]
    return found


def _models(split: str, given: Predicted) -> list[Result]:
    found = []
    for gpu in np.unique(given.gpu).tolist():
        here = given[given.gpu == gpu]
        plain = here[here.part != COMPILED]
        found.append(_result(split, OURS, f"{gpu}: inference and training", plain))
        found += [
            _result(split, OURS, f"{gpu}: {part}", here[here.part == part])
            for part in np.unique(here.part).tolist()
        ]
    return found


def _result(split: str, method: str, rows_of: str, given: Predicted) -> Result:
    found = figures(np.log(given.measured), np.log(given.predicted), np.arange(len(given)))
    return Result(split, method, found, rows_of=rows_of)


def train(options: Options) -> str:
    """Write the bundle from NeuSight's operators."""
    manifest = learn(options, operator_bundle.train, operator_bundle.STEPS)
    return f"{manifest.id}: {manifest.training.rows} operator rows"


def evaluate(options: Options) -> Report:
    """Report operators, whole models and image models on GPUs that nothing was fitted on."""
    with step_bar("evaluating", STEPS) as advance:
        return operators_report(options.seed, advance)
