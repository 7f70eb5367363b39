"""The time of a training step of a model on each platform.

On a measured device: the device's cost model and learnt correction (basis ``calibrated``). On
another device: the learnt model (head) of a measured device of the same kind (GPU or CPU), with
each cost scaled by the ratio of the two devices' peak rates (basis ``prior``; ``scaled`` for the
same processor with another number of cores).

Every learnt step is in the device's usual precision: mixed (``amp``) on a GPU, fp32 on a CPU. Other
precisions are scaled by the ratio of peak rates; ``step_precision.json``, written by ``python -m
lab training-precision --train``, holds the error of this scaling. ``step_widths.json`` holds the
interval widths for families of models that were not measured. These widths are used for all models,
because the predictor cannot tell whether a model's family was measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document, read_json
from berth.pilot.platform import Platform
from berth.predictor.core.arrays import Floats
from berth.predictor.core.bundle import LearntFile
from berth.predictor.core.prediction import Basis, Bound, Interval
from berth.predictor.families.graph.latency.features import graph_features, work_of
from berth.predictor.families.training_step import bundle as bundles
from berth.predictor.families.training_step.bundle import LoadedStepHead, StepModel
from berth.predictor.families.training_step.step_costs import cost_seconds, step_features, terms
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.hardware import platforms as catalogue
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof, roof_of


@dataclass(frozen=True, slots=True)
class StepPrediction:
    """The predicted time of a training step on a platform."""

    platform: str
    precision: str
    """``amp``: automatic mixed precision; else the precision that the caller requested."""
    batch: int
    seconds: Interval
    """90 % interval of the time of the whole step, in seconds."""
    basis: Basis
    learnt_on: str
    """The device whose measurements the prediction was learnt from."""
    bound: Bound
    """The bound (compute, memory or launch) with the largest part of the cost model's time."""

    @property
    def samples_per_s(self) -> float:
        """Return the training samples per second at this batch size."""
        return self.batch / self.seconds.mid


@cache
def shipped() -> StepModel:
    """Return the bundle of training steps that Berth ships.

    Raises DocumentError.
    """
    return bundles.load()


def predict(
    graph: ModelGraph,
    names: Sequence[str],
    platforms: Mapping[str, Platform],
    model: StepModel | None = None,
    *,
    cores: int | None = None,
    numbers: Numbers | None = None,
) -> list[StepPrediction]:
    """Return the predicted time of one training step of ``graph`` on each platform of ``names``, in
    that order.

    ``cores``: number of cores on CPUs; default: all. ``numbers``: the precision; default: mixed on
    GPUs, fp32 on CPUs. Platforms without native support for the precision are left out.
    """
    model = model or shipped()
    features = graph_features(work_of(graph))[None]
    batch = np.array([float(graph.batch)])
    table = terms(features, batch)
    rest = {}
    predictions = []
    for name in names:
        head = _head(model, platforms[name])
        entry = head.entry
        if entry.platform not in rest:
            rows = step_features(features, batch, np.zeros(1), head.rates[None])
            rest[entry.platform] = float(head.rest(rows)[0])
        units = cores if cores is not None and not platforms[name].is_gpu else platforms[name].cores
        moved = _moved(head, platforms[name], platforms, units, numbers)
        if moved is None:
            continue
        ratio, basis, log_width = moved
        seconds = float(cost_seconds(table, (head.rates * ratio)[None])[0])
        middle, factor = seconds * math.exp(rest[entry.platform]), math.exp(log_width)
        parts = (table[0] * head.rates * ratio).tolist()
        predictions.append(
            StepPrediction(
                name, entry.precision if numbers is None else numbers.value, graph.batch,
                Interval(middle / factor, middle, middle * factor), basis, entry.platform,
                _bound(parts),
            )
        )  # fmt: skip
    return predictions


def _head(model: StepModel, platform: Platform) -> LoadedStepHead:
    """Return the learnt model of this device; else that of the first measured device of the same
    kind (GPU or CPU)."""
    kinds = [head for head in model.heads if head.entry.is_gpu == platform.is_gpu] or model.heads
    same = [head for head in kinds if head.entry.platform == platform.name]
    return (same or list(kinds))[0]


def _moved(
    head: LoadedStepHead,
    platform: Platform,
    platforms: Mapping[str, Platform],
    cores: int,
    numbers: Numbers | None,
) -> tuple[Floats, Basis, float] | None:
    """Return the factors from the learnt device to ``platform``: (time ratio per term, basis, log
    half width).

    ``cores``: number of cores on a CPU. None: the platform does not support the precision.
    """
    entry = head.entry
    families = family_widths().get(entry.platform)
    own_width = max(entry.here.log_width, families.log_width if families else 0.0)
    asked = numbers or usual(is_gpu=platform.is_gpu)
    second = roof_of(platform, platforms, cores)
    if numbers is not None and not computes_in(second, numbers):
        return None
    as_learnt = is_usual(asked, is_gpu=platform.is_gpu)
    same_place = platform.name == entry.platform and (entry.is_gpu or cores == entry.cores)
    if same_place and as_learnt:
        return np.ones(len(head.rates)), Basis.CALIBRATED, own_width
    home = platforms.get(entry.platform)
    if home is None:
        home = catalogue.shipped()[entry.platform]
    first = roof_of(home, {**platforms, home.name: home}, entry.cores)
    ratios = roof_ratios(first, second, asked)
    if not as_learnt:
        other = precision_width().log_width
        return ratios, Basis.PRIOR, max(entry.elsewhere.log_width, own_width, other)
    basis = Basis.SCALED if platform.name == entry.platform else Basis.PRIOR
    return ratios, basis, max(entry.elsewhere.log_width, own_width)


def _bound(parts: Sequence[float]) -> Bound:
    """Return the limiting resource (compute, memory or launch): the one with the largest part of
    the step time.

    ``parts``: times in the order of ``TERMS``.
    """
    sums = {
        Bound.COMPUTE: sum(parts[:2]), Bound.MEMORY: sum(parts[2:5]), Bound.LAUNCH: parts[5],
    }  # fmt: skip
    return max(sums, key=lambda bound: sums[bound])


def roof_ratios(first: Roof, second: Roof, numbers: Numbers | None = None) -> Floats:
    """Return [len(TERMS)]: each term's time on ``second`` over its time on ``first``, from peak
    rates.

    ``first`` computes in its usual precision, ``second`` in ``numbers`` (default: its usual one).
    """
    learnt_numbers = usual(is_gpu=first.is_gpu)
    asked_numbers = numbers or usual(is_gpu=second.is_gpu)
    flops = first.matrix_flops[learnt_numbers] / second.matrix_flops[asked_numbers]
    bandwidth = first.dram_bytes / second.dram_bytes * (asked_numbers.bits / learnt_numbers.bits)
    launch = second.launch_s / first.launch_s
    return np.array([flops, flops, bandwidth, bandwidth, bandwidth, launch])


PRECISION_FILE = Path(__file__).with_name("step_precision.json")
_HALVES = (Numbers.FP16, Numbers.BF16)


class PrecisionWidth(LearntFile):
    """The error of steps in another precision that are scaled by the ratio of peak rates."""

    schema_: str = Field(default="berth.step-precision/1", alias="schema")
    log_width: float = Field(gt=0)
    """Half width of the 90 % interval, in log time."""


@cache
def precision_width() -> PrecisionWidth:
    return read_json(PRECISION_FILE, PrecisionWidth)


def usual(*, is_gpu: bool) -> Numbers:
    """Return the precision that steps were measured in; on GPUs fp16 stands for mixed precision."""
    return Numbers.FP16 if is_gpu else Numbers.FP32


def is_usual(numbers: Numbers, *, is_gpu: bool) -> bool:
    """Return whether steps in this precision need no scaling; mixed precision covers fp16 and
    bf16."""
    return numbers in _HALVES if is_gpu else numbers is Numbers.FP32


def computes_in(roof: Roof, numbers: Numbers) -> bool:
    return numbers is Numbers.FP32 or numbers in roof.native


WIDTHS = Path(__file__).with_name("step_widths.json")


class FamilyWidth(Document):
    """The interval width for unmeasured families of models, on one measured device."""

    log_width: float = Field(gt=0)
    groups: int = Field(ge=1)
    rows: int = Field(ge=1)
    coverage: float = Field(ge=0, le=1)
    """Share of held-out families' times inside the interval; those families did not set the
    width."""


class StepWidths(Document):
    """Interval widths of training steps for families of models that were not measured
    (``step_widths.json``)."""

    schema_: str = Field(default="berth.step-widths/1", alias="schema")
    command: str
    created: str
    split: str
    widths: dict[str, FamilyWidth]
    """Interval widths by platform name."""


@cache
def family_widths() -> dict[str, FamilyWidth]:
    """Return the half width of 90 % intervals in log time, by platform, for model families that
    were not measured.

    Raises DocumentError.
    """
    return read_json(WIDTHS, StepWidths).widths
