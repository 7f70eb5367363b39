"""``python -m lab operators``: see ``training.operators.held_out`` for the splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.pilot.errors import ToolMissing
from berth.predictor.families.graph.operators.calls import Floats
from berth.predictor.hardware.gpus import find
from lab.operators import baselines as rivals
from lab.operators import images, models
from lab.operators.data import Rows, Strings, rows
from lab.operators.fit import FULL, Size, fit
from lab.operators.held_out import (
    Held,
    choose_power,
    left_out,
    own_split,
    width_of,
    without,
)
from lab.operators.train import (
    HALF_WIDTH,
    MODEL_WIDTH,
    group_widths,
    in_memory,
    width_figures,
)

OWN = "NeuSight's own split"
LEFT_OUT = "silicon left out"
MODELS = "whole models, silicon left out"
MODELS_OWN = "whole models, NeuSight's own split"
IMAGES = "image models, no row of them fitted"
OURS, ROOFLINE, TREES = "physics x utilisation", "roofline", "XGBoost on shapes and specs"
UNSEEN = ("l4-24gb", "a100-pcie-80gb")
"""Without a training row in NeuSight's split."""
CLASSES: Mapping[str, tuple[str, ...]] = {
    "bmm": ("bmm",), "linear": ("linear",), "convolution": ("conv",), "softmax": ("softmax",),
    "layer norm": ("ln",),
    "element-wise": ("add", "addu", "div", "divu", "gelu", "mul", "mulu", "pow", "powu", "relu",
                     "tanh"),
}  # fmt: skip
STEPS = 10


@dataclass(frozen=True, slots=True)
class Figures:
    """A method on one part of a split; errors are |predicted / measured - 1|."""

    split: str
    method: str
    gpu: str
    part: str
    rows: int
    median_error: float
    mean_error: float
    bias: float
    """Median of predicted / measured."""


@dataclass(frozen=True, slots=True)
class OperatorsEvaluation:
    """All figures with their splits."""

    seed: int
    results: tuple[Figures, ...]
    power: dict[str, str]
    """Chosen law: by silicon left out, or ``own``."""
    widths: dict[str, float]
    """Of sums, as figures."""
    skipped: dict[str, str]
    """Section -> what was missing."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON; ``shipped`` goes into the bundle's card."""
        return {
            "seed": self.seed,
            "results": [asdict(one) for one in self.results],
            "power": self.power,
            "skipped": self.skipped,
            "published": {"operators, mean": rivals.PUBLISHED, "L4": rivals.PUBLISHED_L4},
            "shipped": self.shipped(),
        }

    def shipped(self) -> dict[str, float]:
        """Figures by name, for a bundle's manifest."""
        found = {
            f"{one.split}, {one.gpu}, {one.part}: {name} error": value
            for one in self.results
            if one.method == OURS and (one.gpu in UNSEEN or one.split in (MODELS, IMAGES))
            for name, value in (("median", one.median_error), ("mean", one.mean_error))
        }
        return found | self.widths


def evaluate(
    seed: int, advance: Callable[[str], None] = lambda _: None, size: Size = FULL
) -> OperatorsEvaluation:
    """Everything. Sections whose data or libraries are missing are named in ``skipped``."""
    given = rows()
    own, own_fit = own_split(seed, size)
    advance("own split")
    results = [*_own_figures(own, given, seed)]
    held = left_out(seed, size, advance)
    results += _by_gpu(LEFT_OUT, OURS, held.rows, held.seconds)
    skipped: dict[str, str] = {}
    widths: dict[str, float] = {}
    for group, width in group_widths(held).items():
        widths |= width_figures(group.value, width)
    try:
        apart = models.summed(lambda chip: without(chip, seed, size))
        results += _model_figures(MODELS, apart)
        results += _model_figures(MODELS_OWN, models.summed(lambda _: own_fit), UNSEEN[:1])
        widths |= _model_width(apart)
    except ToolMissing as missing:
        skipped[MODELS] = str(missing)
    advance("whole models")
    try:
        pictures = images.summed(in_memory(fit(given, choose_power(seed), seed, size), given))
        results += _image_figures(pictures)
        apart_by = pictures.rows.seconds / pictures.seconds
        widths |= width_figures(HALF_WIDTH, width_of(apart_by, pictures.rows.device))
    except ToolMissing as missing:
        skipped[IMAGES] = str(missing)
    advance("image models")
    power = {
        name: f"{law.watts:g} W, exponent {law.gamma:g}"
        for name, law in {**own.power, **held.power}.items()
    }
    return OperatorsEvaluation(seed, tuple(results), power, widths, skipped)


def _own_figures(own: Held, given: Rows, seed: int) -> list[Figures]:
    train = given[~given.test]
    found = _by_gpu(OWN, OURS, own.rows, own.seconds)
    for name, seconds in (
        (ROOFLINE, rivals.roofline(train, own.rows)),
        (TREES, rivals.trees(train, own.rows, seed)),
    ):
        found += _by_gpu(OWN, name, own.rows, seconds)
    return found


def _by_gpu(split: str, method: str, given: Rows, seconds: Floats) -> list[Figures]:
    ratio, found = seconds / given.seconds, []
    for gpu in np.unique(given.gpu):
        here = given.gpu == gpu
        found.append(_figures(split, method, str(gpu), "all", ratio[here]))
        for part, operators in CLASSES.items():
            of = here & np.isin(given.operator, operators)
            if of.any():
                found.append(_figures(split, method, str(gpu), part, ratio[of]))
    return found


def _model_figures(split: str, given: models.Summed, only: tuple[str, ...] = ()) -> list[Figures]:
    ratio = given.seconds / np.array([row.seconds for row in given.rows])
    gpu = _gpus(given)
    kind = np.array(
        [
            "compiled" if row.option else "training" if row.training else "inference"
            for row in given.rows
        ]
    )
    found = []
    for name in np.unique(gpu):
        if only and name not in only:
            continue
        plain = (gpu == name) & (kind != "compiled")
        found.append(_figures(split, OURS, str(name), "inference and training", ratio[plain]))
        found += [
            _figures(split, OURS, str(name), str(part), ratio[(gpu == name) & (kind == part)])
            for part in np.unique(kind[gpu == name])
        ]
    return found


def _gpus(given: models.Summed) -> Strings:
    return np.array([find(row.device).name for row in given.rows])


def _model_width(given: models.Summed) -> dict[str, float]:
    plain = np.array([not row.option for row in given.rows])
    ratio = np.array([row.seconds for row in given.rows]) / given.seconds
    return width_figures(MODEL_WIDTH, width_of(ratio[plain], _gpus(given)[plain]))


def _image_figures(given: images.Images) -> list[Figures]:
    ratio = given.seconds / given.rows.seconds
    setting = np.array([
        f"{precision} {layout}" + (" compiled" if compiled else "")
        for precision, layout, compiled in zip(
            given.rows.precision.tolist(), given.rows.layout.tolist(),
            given.rows.compiled.tolist(), strict=True,
        )
    ])  # fmt: skip
    found = []
    for gpu in np.unique(given.rows.device):
        here = given.rows.device == gpu
        found.append(_figures(IMAGES, OURS, str(gpu), "all", ratio[here]))
        for name in np.unique(setting[here]):
            of = ratio[here & (setting == name)]
            found.append(_figures(IMAGES, OURS, str(gpu), str(name), of))
            scaled = of / np.median(of)
            part = f"{name}, after one factor"
            found.append(_figures(IMAGES, OURS, str(gpu), part, scaled))
    return found


def _figures(split: str, method: str, gpu: str, part: str, ratio: NDArray[np.float64]) -> Figures:
    errors = np.abs(ratio - 1)
    return Figures(
        split, method, gpu, part, len(ratio), float(np.median(errors)), float(errors.mean()),
        float(np.median(ratio)),
    )  # fmt: skip
