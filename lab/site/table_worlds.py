"""Sites of public tables: timm's models and Gavel's job types, on three GPUs each.

An application (a family of models) in turn arrives unseen: forecasts are the reference's time,
which the pilot measured, and log speedups from the other applications, as their mean or as a ridge
on what is known of a model before it runs. Deviations are those of the others, each left out in
turn.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.learning.cells import LEAST_DEVIATION, Place, Row
from lab.datasets import gavel, locate, timm
from lab.site.world import World

RIDGE = 1.0
NOISE = 0.03
"""Deviation of log time between runs, where the table has one run of each."""
_FAMILY = re.compile(r"[a-z]+")
_BATCH = re.compile(r"(.+?)(?: \(batch size (\d+)\))?")


@dataclass(frozen=True, slots=True)
class Runs:
    """Rows x devices."""

    applications: tuple[str, ...]
    rows: tuple[Row, ...]
    places: tuple[Place, ...]
    log_seconds: Floats
    features: Floats
    """Rows x what is known of each before it runs; no columns: nothing."""
    fewest: int = 4
    """Rows of an application that arrives."""
    reference: int = 0
    """Column of the device on which pilots run."""

    @property
    def names(self) -> list[str]:
        """Applications that arrive."""
        found = sorted(set(self.applications))
        return [name for name in found if self.applications.count(name) >= self.fewest]

    def world(self, name: str, *, features: bool, without: str = "") -> World:
        """The application as it arrives: by a ridge on ``features``, or mean speedups.

        ``without``: an application of which nothing is known either.
        """
        if without:
            return self._less(without).world(name, features=features)
        here = np.array([one == name for one in self.applications])
        others = sorted(set(self.applications) - {name})
        known = np.concatenate([self._residual(other, name, features=features) for other in others])
        forecast = self._forecast(~here, here, features=features)
        deviation = np.maximum(np.sqrt((known**2).mean(axis=0)), LEAST_DEVIATION)
        stated = np.tile(deviation, (int(here.sum()), 1))
        stated[:, self.reference] = LEAST_DEVIATION
        return World(
            name,
            self.places,
            tuple(row for row, ours in zip(self.rows, here, strict=True) if ours),
            forecast,
            stated,
            self.log_seconds[here],
            np.full(forecast.shape, NOISE),
        )

    def _less(self, name: str) -> Runs:
        kept = [n for n, one in enumerate(self.applications) if one != name]
        return replace(
            self,
            applications=tuple(self.applications[n] for n in kept),
            rows=tuple(self.rows[n] for n in kept),
            log_seconds=self.log_seconds[kept],
            features=self.features[kept],
        )

    def _residual(self, other: str, name: str, *, features: bool) -> Floats:
        """Of an application, forecast from all but it and ``name``."""
        held = np.array([one == other for one in self.applications])
        train = np.array([one not in {other, name} for one in self.applications])
        return np.asarray(self.log_seconds[held] - self._forecast(train, held, features=features))

    def _forecast(self, train: Floats, held: Floats, *, features: bool) -> Floats:
        reference = self.log_seconds[:, [self.reference]]
        speed = self.log_seconds - reference
        found = np.tile(speed[train].mean(axis=0), (int(held.sum()), 1))
        if features and self.features.shape[1]:
            center, spread = self.features[train].mean(axis=0), self.features[train].std(axis=0)
            known = (self.features - center) / np.maximum(spread, 1e-9)
            left = speed[train] - speed[train].mean(axis=0)
            gram = known[train].T @ known[train] + RIDGE * np.eye(known.shape[1])
            found = found + known[held] @ np.linalg.solve(gram, known[train].T @ left)
        return np.asarray(found + reference[held])


def timm_runs() -> Runs:
    """Seconds a sample of inference and training, the fastest setting of each device."""
    table = timm.frame().dropna(subset=["samples_per_sec", "gmacs", "macts", "param_count"])
    table = table[(table.samples_per_sec > 0) & (table.gmacs > 0) & (table.macts > 0)]
    keys = ["model", "img_size", "mode"]
    fastest = table.pivot_table("samples_per_sec", keys, "device", aggfunc="max")
    gpus = ["3090", "5090", "pro6000maxq"]
    fastest = fastest.dropna(subset=gpus)[gpus]
    totals = table.groupby(keys)[["gmacs", "macts", "param_count"]].median().loc[fastest.index]
    logs = np.log(totals.to_numpy(np.float64))
    modes = [mode for _, _, mode in fastest.index]
    training = np.array([[float(mode == "train")] for mode in modes])
    return Runs(
        tuple(_family(model) for model, _, _ in fastest.index),
        tuple(Row(mode, float(log)) for mode, log in zip(modes, logs[:, 0], strict=True)),
        tuple(Place(name, "gpu", "nvidia") for name in gpus),
        -np.log(fastest.to_numpy(np.float64)),
        np.hstack([logs, logs[:, [0]] - logs[:, [1]], training, training * logs]),
        fewest=10,
    )


def gavel_runs() -> Runs:
    """Seconds a step of each job type and number of GPUs that all three GPUs were measured with."""
    table = gavel.throughputs(locate(gavel.THROUGHPUTS))
    rows = [
        (match[1], float(match[2] or 1), gpus, speeds)
        for (kind, gpus), speeds in sorted(table.items())
        if (match := _BATCH.fullmatch(kind)) and np.isfinite(speeds).all() and (speeds > 0).all()
    ]
    return Runs(
        tuple(name for name, *_ in rows),
        tuple(Row("", float(np.log(batch)), float(np.log(gpus))) for _, batch, gpus, _ in rows),
        tuple(Place(name, "gpu", "nvidia") for name in gavel.DEVICES),
        np.array([-np.log(speeds) for *_, speeds in rows]),
        np.log([[batch, gpus] for _, batch, gpus, _ in rows]),
    )


def _family(model: str) -> str:
    found = _FAMILY.match(model)
    return model if found is None else found[0]
