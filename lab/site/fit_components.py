"""Shares of the forecast's error, by maximum likelihood over held-out residuals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from berth.predictor.core.arrays import Floats
from berth.predictor.learning.cells import SHIPPED, Cell, Components, covariance
from lab.site.worlds import World

SHARES = (
    "program", "kind", "family", "platform", "part", "part_on_kind", "row", "row_on_kind", "cell",
)  # fmt: skip
MOST_ROWS = 8
"""Of one application."""
_NOISE = 0.03


def fit_components(worlds: Sequence[World], start: Components = SHIPPED) -> Components:
    """Return shares and the length of sizes; ``worlds`` weigh by the square root of their rows."""
    problems = [_problem(world) for world in worlds]

    def loss(logs: Floats) -> float:
        parts = _parts(logs, start)
        return sum(weight * _negative(c, r, parts) for c, r, weight in problems) + _pull(logs)

    first = np.log([*(max(getattr(start, name), 0.02) for name in SHARES), start.length])
    found = minimize(
        loss, first, method="L-BFGS-B", bounds=[(-7.0, 2.5)] * len(first),
        options={"maxiter": 30, "ftol": 1e-4},
    )  # fmt: skip
    return _parts(found.x, start)


def _parts(logs: Floats, start: Components) -> Components:
    values = np.exp(logs)
    shares = dict(zip(SHARES, values[:-1].tolist(), strict=True))
    return replace(start, **shares, length=float(values[-1]))


def _pull(logs: Floats) -> float:
    """Return a weak prior: shares of a tenth, lengths of two."""
    return float(0.05 * ((logs - np.log([0.1] * len(SHARES) + [2.0])) ** 2).sum())


def _problem(world: World) -> tuple[list[Cell], Floats, float]:
    chosen = np.linspace(0, len(world.rows) - 1, min(MOST_ROWS, len(world.rows))).astype(int)
    devices = [d for d in range(len(world.places)) if world.deviation[:, d].max() > 1e-6]
    cells = [world.cell(row, device) for row in chosen.tolist() for device in devices]
    residual = world.log_residual[chosen][:, devices].ravel()
    return cells, residual, 1.0 / len(chosen)


def _negative(cells: Sequence[Cell], residual: Floats, parts: Components) -> float:
    noisy = covariance(cells, cells, parts) + _NOISE**2 * np.eye(len(cells))
    root = np.linalg.cholesky(noisy)
    solved = np.linalg.solve(root, residual)
    return float(0.5 * (solved @ solved) + np.log(np.diag(root)).sum())
