"""Fit the sweep method: effective shares of slices, and a correction of the load model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import xgboost

from berth.predictor.core.arrays import Floats
from berth.predictor.families.slices.physics import MeasuredShare, ShareModel
from berth.predictor.families.slices.sweep import (
    LoadModel,
    Loads,
    SweepModel,
    load_model_log_slowdown,
    residual_features,
)
from lab.ground.table import stacked
from lab.slices.slice_cases import SHARES, SliceRows

MOST_CORRECTION = 0.4
"""Log residuals are clipped to this in training; larger ones are mostly measurement errors."""
_GRID = np.exp(np.linspace(-0.25, 0.25, 51))


def model_weights(models: Sequence[str]) -> Floats:
    """Weights that sum to one, the same for each model however many rows it has."""
    names, place, count = np.unique(np.array(models), return_inverse=True, return_counts=True)
    return np.asarray(1.0 / (count[place] * len(names)))


def by_load_model(rows: SliceRows, ask: Callable[[LoadModel, Loads, list[int]], Floats]) -> Floats:
    """Return one array over all rows from a function that takes the rows of one load model."""
    parts: list[tuple[list[int], Floats]] = []
    for load_model in dict.fromkeys(rows.load_models):
        index = [i for i, one in enumerate(rows.load_models) if one is load_model]
        if load_model is None:
            raise AssertionError("a row of a model without a load model")
        parts.append((index, ask(load_model, rows[np.array(index)].loads, index)))
    out = np.zeros((len(rows), *parts[0][1].shape[1:]))
    for index, values in parts:
        out[index] = values
    return out


def effective(rows: SliceRows, shares: ShareModel) -> Floats:
    """Return the effective share of each row's slice."""
    found = {g: shares.effective(share) for g, share in SHARES.items()}
    return np.array([found[g] for g in rows.slices.tolist()])


def fit_shares(rows: SliceRows) -> ShareModel:
    """Fit the effective shares that minimise the load model's mean absolute log error.

    Each model has the same weight. Slices that were not measured get ``scale c^(1-w) m^w``, fitted
    to the measured slices, where c and m are the shares of compute and of memory.
    """
    weights = model_weights(rows.models.tolist())
    found: dict[int, float] = {}
    for g, share in SHARES.items():
        mine = rows.slices == g

        def loss(factor: float, mine: Floats = mine, compute: float = share.compute) -> float:
            tried = np.minimum(np.where(mine, compute * factor, 1.0), 1.0)
            return float((weights * np.abs(_bare(rows, tried) - rows.log_slowdown))[mine].sum())

        found[g] = share.compute * min(_GRID.tolist(), key=loss)
    log_c, log_m = (
        np.log([getattr(SHARES[g], kind) for g in found]) for kind in ("compute", "memory")
    )
    log_e, more = np.log(list(found.values())), log_m - log_c - (log_m - log_c).mean()
    weight = float(np.clip(more @ (log_e - log_c) / (more**2).sum(), 0.0, 1.0))
    scale = float(np.exp((log_e - (1 - weight) * log_c - weight * log_m).mean()))
    return ShareModel(
        measured=tuple(
            MeasuredShare(compute=SHARES[g].compute, memory=SHARES[g].memory, effective=round(e, 6))
            for g, e in found.items()
        ),
        scale=round(scale, 6),
        memory_weight=round(weight, 6),
    )


def fit_correction(rows: SliceRows, shares: ShareModel, seed: int) -> xgboost.XGBRegressor:
    """Fit trees on the residuals of the load model."""
    share = effective(rows, shares)
    missed = np.clip(rows.log_slowdown - _bare(rows, share), -MOST_CORRECTION, MOST_CORRECTION)
    model = xgboost.XGBRegressor(
        n_estimators=300,
        max_depth=5,
        learning_rate=0.05,
        subsample=0.8,
        colsample_bytree=0.5,
        min_child_weight=5,
        reg_lambda=5,
        objective="reg:absoluteerror",
        tree_method="hist",
        base_score=0.0,
        random_state=seed,
        n_jobs=1,
    )
    weights = model_weights(rows.models.tolist()) * len(rows)
    model.fit(features_of(rows, share), missed, sample_weight=weights)
    return model


def log_slowdowns(model: SweepModel, rows: SliceRows, shares: ShareModel) -> Floats:
    """Return predicted log slow-downs of every row."""
    share = effective(rows, shares)
    return by_load_model(
        rows, lambda own, loads, index: model.log_slowdown(own, loads, share[index])
    )


@dataclass(frozen=True, slots=True)
class SweepFit:
    """Effective shares and the trees that correct the load model, fitted on some models."""

    shares: ShareModel
    trees: xgboost.XGBRegressor

    @property
    def model(self) -> SweepModel:
        """Return the model that is served, with trees evaluated by xgboost."""
        return SweepModel(
            lambda features: np.asarray(self.trees.predict(features.astype(np.float32)), np.float64)
        )


def fit_sweep(rows: SliceRows, pairs: SliceRows, seed: int) -> SweepFit:
    """Fit shares on ``rows``, which have load models of whole sweeps, and the correction on them
    and on ``pairs``."""
    shares = fit_shares(rows)
    return SweepFit(shares, fit_correction(stacked([rows, pairs]), shares, seed))


def _bare(rows: SliceRows, share: Floats) -> Floats:
    return by_load_model(
        rows,
        lambda own, loads, index: load_model_log_slowdown(own, loads, share[index]),
    )


def features_of(rows: SliceRows, share: Floats) -> Floats:
    """Return the correction's features of every row."""
    return by_load_model(
        rows, lambda own, loads, index: residual_features(own, loads, share[index])
    )
