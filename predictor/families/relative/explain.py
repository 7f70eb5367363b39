"""Explanations of relative predictions: effects of counters, and the largest cost on a platform.

Effects are Shapley values on the log speedup of single counters and of the reference's time,
relative to the geometric mean of the training rows (``attribution``). The limiting resource of a
platform is the largest term of the cost model's time there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.core.prediction import Bound
from berth.predictor.families.program.attribution import attribute
from berth.predictor.families.program.explain import (
    CounterEffect,
    SpeedupExplanation,
    largest_first,
)
from berth.predictor.families.relative.bundle import RelativeModel
from berth.predictor.families.relative.cost_model import CostModel
from berth.predictor.families.relative.rows import Rows
from berth.predictor.families.relative.views import CACHES, LAUNCH, MEMORY, REFERENCE, SERIAL, WORK

TIME = "time on the reference"
"""Name of the reference's time among the counters."""
_AT_ONCE = 4096
"""Number of rows that are predicted together."""


class Carried(StrEnum):
    """A limit that is no resource: what slows the program on the reference also slows it on this
    platform."""

    REFERENCE = "reference"


LIMITS: dict[str, tuple[Bound | Carried, str]] = {
    LAUNCH: (Bound.LAUNCH, "starting kernels"),
    SERIAL: (Bound.SERIAL, "the work of one thread"),
    WORK: (Bound.COMPUTE, "its instructions"),
    CACHES: (Bound.MEMORY, "what misses the first-level cache"),
    MEMORY: (Bound.MEMORY, "what misses the last-level cache"),
    REFERENCE: (Carried.REFERENCE, "what takes its time on the reference as well"),
}
"""Limiting resource and its description for users, by cost term."""
AXES = tuple(
    (words, (term,))
    for term, words in (
        (LAUNCH, "launches"),
        (SERIAL, "serial"),
        (WORK, "compute"),
        (CACHES, "caches"),
        (MEMORY, "memory"),
        (REFERENCE, "as on the reference"),
    )
)
"""Axes of the radar chart: label and cost terms."""
SHARES = "Share of the cost model's time on each platform"
"""Title of the radar chart."""


@dataclass(frozen=True, slots=True)
class RelativeExplanation(SpeedupExplanation):
    """An explanation by the cost model; shares are of its predicted time and sum to 1."""

    whose_time: ClassVar[str] = "the cost model's"


def explain_row(
    model: RelativeModel, row: Rows, among: Sequence[str] = ()
) -> list[RelativeExplanation]:
    """Return explanations of one row's speedup per platform, from a bundle of the cost model.

    Effects are relative to the mean of the training rows. ``among``: platforms; default: all.
    Raises UsageError for a bundle of another family, or without trust (which contains that mean).
    """
    if model.trust is None or not isinstance(model.model, CostModel):
        raise UsageError(
            "only a bundle of the cost model, with its trust, can be explained",
            hint="`berth train --task relative-performance` makes one from four applications on",
        )
    return explain_cost_model(model.model, model.trust.neighbours.centre, row, among)


def explain_cost_model(
    model: CostModel, typical: Floats, row: Rows, among: Sequence[str] = ()
) -> list[RelativeExplanation]:
    """Return explanations of the row's speedup on each platform, in the cost model's order.

    ``among``: platforms; default: all. ``typical``: log(1 + counter) of each counter and log of the
    reference's time, to which effects are relative. Times measured on other platforms are ignored:
    the prediction is explained. Missing counters have no effect.
    """
    asked = row.knowing()
    own = np.append(np.log1p(np.maximum(asked.values[0], 0.0)), asked.log_reference[0])

    def speedups(inputs: Floats) -> Floats:
        parts = [inputs[i : i + _AT_ONCE] for i in range(0, len(inputs), _AT_ONCE)]
        return np.vstack([_speedups(model, asked, part) for part in parts])

    groups = [[column] for column in range(own.size) if np.isfinite(own[column])]
    names = [*asked.counters, TIME]
    attribution = attribute(speedups, own, typical, groups)
    shares = model.costs.shares(model.seen(asked))[0]
    words = [names[column] for (column,) in groups]
    return [
        RelativeExplanation(
            platform=name,
            speedup=math.exp(float(attribution.value[index])),
            typical_speedup=math.exp(float(attribution.base[index])),
            bound=LIMITS[limit][0],
            limit=LIMITS[limit][1],
            limit_share=each[limit],
            effects=largest_first(
                CounterEffect(word, (word,), math.exp(effect))
                for word, effect in zip(words, attribution.effects[:, index].tolist(), strict=True)
            ),
            at_home=name == model.reference,
            shares=each,
        )
        for index, name in enumerate(model.platforms)
        if not among or name in among
        for each in [dict(zip(model.costs.terms, shares[index].tolist(), strict=True))]
        for limit in [max(each, key=each.__getitem__)]
    ]


def _speedups(model: CostModel, asked: Rows, inputs: Floats) -> Floats:
    """Return log speedups [inputs, platforms] for inputs of log counters and log reference time."""
    count = len(inputs)
    times = np.full((count, len(asked.platforms)), np.nan)
    times[:, asked.reference_column] = inputs[:, -1]
    rows = replace(
        asked,
        values=np.expm1(inputs[:, :-1]),
        log_seconds=times,
        applications=asked.applications * count,
        kernels=asked.kernels * count,
        sizes=asked.sizes * count,
    )
    return inputs[:, -1:] - model.log_seconds(rows)
