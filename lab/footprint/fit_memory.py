"""The constants of the memory model, each learnt from exactly the labels that it is given."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls
from scipy.special import ndtr
from scipy.stats import t as student

from berth.predictor.core.arrays import Floats
from berth.predictor.core.prediction import Interval
from berth.predictor.footprint.footprint import Need
from berth.predictor.footprint.runtimes import DeviceMemory, HostMemoryModel, Span
from lab.footprint.memory_labels import (
    DUMMY_MIB,
    MIB,
    Forward,
    Hosted,
    Trained,
)

LEVEL = 0.95
ENDS = ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2)
_HALVINGS = 30
PRIOR_WIDTH = 0.5
"""Of the log of needed over counted: its mean between models, and its spread."""


def fit_forward(cases: Sequence[Forward]) -> DeviceMemory:
    """Context and share of forward passes: means over models, Student's interval of a new model.

    The context is what is measured above what is counted; the share what is measured of that,
    above the mean context, at each model's largest batch. At least two models are needed.
    """
    above: dict[str, list[float]] = {}
    largest: dict[str, tuple[float, float]] = {}
    for case in cases:
        actual = case.printed.actual_mib
        if actual is not None:
            counted = case.need.allocated / MIB
            above.setdefault(case.printed.model, []).append(actual - counted)
            largest[case.printed.model] = max(
                largest.get(case.printed.model, (0.0, 0.0)), (counted, actual)
            )
    context = new_model([float(np.mean(values)) for values in above.values()])
    shares = [(actual - context.mid) / counted for counted, actual in largest.values()]
    half = _half(shares)
    return DeviceMemory(
        context_bytes=_span(context.scaled(MIB)),
        share=Span(low=max(1 - half, 0.0), mid=1.0, high=1 + half),
    )


def new_model(values: Sequence[float]) -> Interval:
    """Where another model's value lies, by Student's distribution."""
    mean, half = float(np.mean(values)), _half(values)
    return Interval(max(mean - half, 0.0), mean, mean + half)


def _half(values: Sequence[float]) -> float:
    n = len(values)
    spread = float(np.std(values, ddof=1))
    return float(student.ppf(ENDS[2], n - 1)) * spread * math.sqrt(1 + 1 / n)


@dataclass(frozen=True, slots=True)
class Shares:
    """Posterior of the log of needed over counted memory, of programs as MISO's."""

    mean: Floats
    spread: Floats
    weight: Floats

    def quantile(self, q: float) -> float:
        """Return the quantile of a new model."""
        low, high = -10.0, 10.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            below = float((self.weight * ndtr((middle - self.mean) / self.spread)).sum())
            low, high = (middle, high) if below < q else (low, middle)
        return math.exp((low + high) / 2)

    @property
    def span(self) -> Span:
        """Return the 95 % interval of a new model."""
        low, mid, high = (self.quantile(q) for q in ENDS)
        return Span(low=low, mid=mid, high=high)


def training_shares(cases: Sequence[Trained], *, prior_width: float = PRIOR_WIDTH) -> Shares:
    """Needed over counted, from interval-censored labels: its log is normal.

    A load says only that its need lies above the slices it failed on, and not above those it ran
    on. All loads of one model together weigh as one. Mean and spread have priors of width
    ``prior_width`` (normal around 0 and half-normal); a grid makes the posterior.
    """
    mean = np.linspace(-1.5, 2.0, 281)[:, None]
    spread = np.linspace(0.02, 2.0, 160)[None, :]
    log = -0.5 * (mean / prior_width) ** 2 - 0.5 * (spread / prior_width) ** 2
    loads = Counter(case.model for case in cases)
    for case in cases:
        ends = [
            math.log(max((end - DUMMY_MIB) / case.counted_mib, 1e-9))
            for end in (case.above_mib, case.at_most_mib)
        ]
        inside = ndtr((ends[1] - mean) / spread) - ndtr((ends[0] - mean) / spread)
        log = log + np.log(np.maximum(inside, 1e-12)) / loads[case.model]
    weight = np.exp(log - log.max())
    return Shares(
        np.broadcast_to(mean, log.shape), np.broadcast_to(spread, log.shape), weight / weight.sum()
    )


def host_features(needs: Iterable[Need]) -> Floats:
    """Return [rows, 5] of a HostMemory's sum."""
    return np.array([
        [1e6, n.weights, 1e6 * n.convolutions, 1e6 * n.products, n.activations + n.inputs]
        for n in needs
    ], float)  # fmt: skip


def host_weights(rows: Sequence[Hosted]) -> Floats:
    """Return [5] not negative, by least squares of relative errors."""
    peaks = np.array([row.peak_bytes for row in rows])
    features = host_features(row.need for row in rows)
    found: Floats = nnls(features / peaks[:, None], np.ones(len(peaks)))[0]
    return found


def left_out_ratios(rows: Sequence[Hosted]) -> dict[str, Floats]:
    """Return measured over predicted of each model, by weights of the others."""
    names = np.array([row.model for row in rows])
    found = {}
    for name in dict.fromkeys(names.tolist()):
        others = [row for row in rows if row.model != name]
        own = [row for row in rows if row.model == name]
        predicted = host_features(row.need for row in own) @ host_weights(others)
        found[name] = np.array([row.peak_bytes for row in own]) / predicted
    return found


def fit_host(rows: Sequence[Hosted]) -> HostMemoryModel:
    """Weights from all rows; the interval from models left out, each weighing alike."""
    base, weight, convolution, product, activation = host_weights(rows).tolist()
    ratios = left_out_ratios(rows)
    values = np.concatenate(list(ratios.values()))
    weights = np.concatenate([np.full(len(own), 1 / len(own)) for own in ratios.values()])
    order = np.argsort(values)
    below = (np.cumsum(weights[order]) - 0.5 * weights[order]) / weights.sum()
    low, high = (float(np.interp(q, below, values[order])) for q in (ENDS[0], ENDS[2]))
    return HostMemoryModel(
        base_bytes=1e6 * base,
        a_weight_byte=weight,
        a_convolution=1e6 * convolution,
        a_product=1e6 * product,
        an_activation_byte=activation,
        share=Span(low=min(low, 1.0), mid=1.0, high=max(high, 1.0)),
    )


def _span(given: Interval) -> Span:
    return Span(low=given.low, mid=given.mid, high=given.high)
