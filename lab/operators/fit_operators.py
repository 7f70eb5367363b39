"""Fitting launches and utilisations: gradient-boosted trees under the physics.

The trees give z; utilisation is 1 / (1 + exp(-z)), in (0, 1]; time is launch + base / utilisation.
The loss is Huber's on the logarithm of time, so that a time cannot be fitted below the roof.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import xgboost

from berth.predictor.core.arrays import Floats
from berth.predictor.families.graph.operators.bundle import KINDS, OperatorGroup
from berth.predictor.families.graph.operators.calls import Calls
from berth.predictor.families.graph.operators.physics import (
    Features,
    Places,
    PowerLimit,
    base_seconds,
    product_features,
    utilisation,
    vector_features,
)
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.unit import unit_named
from lab.operators.operator_rows import Rows

Loss: TypeAlias = Callable[[Floats, object], tuple[Floats, Floats]]
HUBER = 0.3
_LAUNCH_QUANTILE = 0.01
_LAUNCH_SHARE = 0.95
_LAUNCH_ROWS = 200


@dataclass(frozen=True, slots=True)
class Size:
    """How much is fitted."""

    rows: int
    """Of each group, at most; as many of each GPU and kind as there are, evenly."""
    rounds: int
    depth: int = 6
    leaf: float = 3.0
    """Least weight of a leaf, about rows; many rows make times grow with sizes."""


FULL = Size(rows=60_000, rounds=100, depth=5, leaf=50.0)
QUICK = Size(rows=8_000, rounds=80)


@dataclass(frozen=True)
class Fitted:
    """Launches and one ensemble for each group."""

    power: PowerLimit
    launch_s: dict[str, float]
    """By operator; of a GPU never seen, the median over GPUs."""
    boosters: dict[OperatorGroup, xgboost.Booster]

    def seconds(self, rows: Rows) -> Floats:
        """Return [n] as predicted for GPUs never seen."""
        found = np.array([self.launch_s[str(op)] for op in rows.operator])
        for gpu in np.unique(rows.gpu):
            of = np.flatnonzero(rows.gpu == gpu)
            found[of] += self.work(rows.calls[of], str(gpu))
        return found

    def work(self, calls: Calls, gpu: str) -> Floats:
        """Return [n] seconds without the launch, on one GPU of the catalogue."""
        found = np.zeros(len(calls))
        for group, booster in self.boosters.items():
            of = np.flatnonzero(np.isin(calls.kind, KINDS[group]))
            if len(of):
                features, base = features_of(group, calls[of], gpu, self.power)
                margin = booster.predict(xgboost.DMatrix(features), output_margin=True)
                found[of] = base / utilisation(margin.astype(np.float64))
        return found


def features_of(
    group: OperatorGroup, calls: Calls, gpu: str, power: PowerLimit
) -> tuple[Features, Floats]:
    """Return what the trees of a group see of calls on one GPU, and their base seconds."""
    places = Places.of([unit_named(gpu)], Numbers.FP32, power)
    features = vector_features if group is OperatorGroup.VECTORS else product_features
    return features(calls, places), base_seconds(calls, places)[0]


def launches(rows: Rows) -> tuple[dict[tuple[str, str], float], dict[str, float]]:
    """(of each GPU and operator, of each operator on a GPU never seen) in seconds.

    From the fastest hundredth of a GPU's training rows; test rows have no small shapes.
    """
    own: dict[tuple[str, str], float] = {}
    typical: dict[str, float] = {}
    train = rows[~rows.test]
    for operator in np.unique(rows.operator):
        of = train[train.operator == operator]
        for gpu in np.unique(of.gpu):
            seconds = of.seconds[of.gpu == gpu]
            if len(seconds) >= _LAUNCH_ROWS:
                quantile = float(np.quantile(seconds, _LAUNCH_QUANTILE))
                own[str(gpu), str(operator)] = _LAUNCH_SHARE * quantile
        found = [s for (_, name), s in own.items() if name == operator]
        typical[str(operator)] = float(np.median(found)) if found else 30e-6
    return own, typical


def fit(
    rows: Rows,
    power: PowerLimit,
    seed: int,
    size: Size = FULL,
    groups: Sequence[OperatorGroup] = tuple(OperatorGroup),
) -> Fitted:
    """Launches and utilisations from ``rows``. Deterministic by seed."""
    own, typical = launches(rows)
    boosters = {}
    for group in groups:
        chosen = rows[_even(rows, group, size.rows, seed)]
        if not len(chosen):
            continue
        launch = np.array([
            own.get((str(gpu), str(op)), typical[str(op)])
            for gpu, op in zip(chosen.gpu, chosen.operator, strict=True)
        ])  # fmt: skip
        width = len(features_of(group, chosen.calls[np.arange(1)], str(chosen.gpu[0]), power)[0][0])
        features, base = np.empty((len(chosen), width), np.float32), np.empty(len(chosen))
        for gpu in np.unique(chosen.gpu):
            of = np.flatnonzero(chosen.gpu == gpu)
            features[of], base[of] = features_of(group, chosen.calls[of], str(gpu), power)
        loss = _loss(base, launch, np.log(chosen.seconds))
        boosters[group] = _train(features, loss, seed, size)
    return Fitted(power, typical, boosters)


def _even(rows: Rows, group: OperatorGroup, most: int, seed: int) -> Any:
    """Return rows of a group, of each GPU and kind evenly as far as there are so many."""
    kinds = [kind for kind in KINDS[group] if np.any(rows.calls.kind == kind)]
    cells = [
        np.flatnonzero((rows.gpu == gpu) & (rows.calls.kind == kind))
        for gpu in np.unique(rows.gpu)
        for kind in kinds
    ]
    cells = sorted((cell for cell in cells if len(cell)), key=len)
    rng, left, taken = np.random.default_rng(seed), most, []
    for n, cell in enumerate(cells):
        share = min(len(cell), left // (len(cells) - n))
        taken.append(rng.choice(cell, share, replace=False))
        left -= share
    return np.concatenate(taken) if taken else np.zeros(0, np.int64)


def _train(features: Features, loss: Loss, seed: int, size: Size) -> xgboost.Booster:
    settings = {
        "objective": "reg:squarederror", "max_depth": size.depth, "eta": 0.15, "base_score": 0.0,
        "min_child_weight": size.leaf, "subsample": 0.7, "colsample_bytree": 0.6, "lambda": 1.0,
        "tree_method": "hist", "max_bin": 128, "nthread": 1, "seed": seed,
    }  # fmt: skip
    return xgboost.train(settings, xgboost.DMatrix(features), size.rounds, obj=loss)


def _loss(base: Floats, launch: Floats, target: Floats) -> Loss:
    def gradients(margin: Floats, _: object) -> tuple[Floats, Floats]:
        share = utilisation(margin.astype(np.float64))
        work = base / share
        time = launch + work
        apart = np.clip(np.log(time) - target, -HUBER, HUBER)
        slope = -work * (1 - share) / time
        return apart * slope, slope * slope + 1e-3

    return gradients
