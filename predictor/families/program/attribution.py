"""Attribution: what each group of inputs adds to a prediction, against a typical input.

Shapley values of the game in which a coalition's inputs are the workload's own and all others
those of the background. Exact over all coalitions for few groups; for more, the mean over a fixed
set of orders and their reverses. Either way base and effects add up to the prediction exactly:
along one order the effects telescope. Any model family serves: it is asked for rows -> outputs.
Sources: Shapley, "A value for n-person games", 1953; Lundberg and Lee, "A unified approach to
interpreting model predictions", NeurIPS 2017; antithetic orders: Mitchell, Cooper, Frank, Holmes,
"Sampling permutations for Shapley value estimation", JMLR 23, 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats

Model = Callable[[Floats], Floats]
"""Rows (n x inputs) to outputs (n x platforms), in log."""

MOST_EXACT = 10
"""Most groups for which every coalition is asked (1,024 rows)."""
ORDERS = 64
SEED = 20260101


@dataclass(frozen=True, slots=True)
class Attribution:
    """``base + effects.sum(axis=0)`` is ``value``."""

    base: Floats
    """Outputs at the background (platforms)."""
    value: Floats
    """Outputs at the workload (platforms)."""
    effects: Floats
    """Groups x platforms, in the outputs' unit."""


def attribute(
    model: Model, row: Floats, background: Floats, groups: Sequence[Sequence[int]]
) -> Attribution:
    """Return what each group of columns adds to ``model(row)``.

    ``row``: inputs. ``background``: m x inputs; of several rows the mean output counts.
    ``groups``: column numbers; columns in no group keep the workload's own value.
    Raises ValueError where a column is in two groups or the shapes do not fit.
    """
    background = np.atleast_2d(background)
    taken = [column for group in groups for column in group]
    if len(set(taken)) != len(taken):
        raise ValueError("a column is in two groups")
    if background.shape[1:] != row.shape or not all(0 <= c < row.size for c in taken):
        raise ValueError(f"background {background.shape} and groups do not fit {row.shape}")
    if len(groups) <= MOST_EXACT:
        return _exact(model, row, background, groups)
    return _sampled(model, row, background, groups)


def _exact(
    model: Model, row: Floats, background: Floats, groups: Sequence[Sequence[int]]
) -> Attribution:
    count = len(groups)
    members = (np.arange(2**count)[:, None] >> np.arange(count)) & 1 == 1
    outputs = _outputs(model, row, background, groups, members)
    sizes = members.sum(axis=1)
    effects = np.zeros((count, outputs.shape[1]))
    for player in range(count):
        without = np.flatnonzero(~members[:, player])
        weights = np.array([1.0 / (count * math.comb(count - 1, s)) for s in sizes[without]])
        gains = outputs[without | (1 << player)] - outputs[without]
        effects[player] = weights @ gains
    return Attribution(outputs[0], outputs[-1], effects)


def _sampled(
    model: Model, row: Floats, background: Floats, groups: Sequence[Sequence[int]]
) -> Attribution:
    count = len(groups)
    draw = np.random.default_rng(SEED)
    orders = [draw.permutation(count) for _ in range(ORDERS // 2)]
    orders += [order[::-1] for order in orders]
    # Coalitions along each order: none, the first, the first two, ..., all.
    members = np.zeros((len(orders), count + 1, count), dtype=bool)
    for index, order in enumerate(orders):
        for step, player in enumerate(order):
            members[index, step + 1 :, player] = True
    flat = members.reshape(-1, count)
    distinct, where = np.unique(flat, axis=0, return_inverse=True)
    outputs = _outputs(model, row, background, groups, distinct)[where.reshape(-1)]
    paths = outputs.reshape(len(orders), count + 1, -1)
    effects = np.zeros((count, outputs.shape[1]))
    for path, order in zip(paths, orders, strict=True):
        effects[order] += np.diff(path, axis=0) / len(orders)
    return Attribution(paths[0, 0], paths[0, -1], effects)


def _outputs(
    model: Model,
    row: Floats,
    background: Floats,
    groups: Sequence[Sequence[int]],
    members: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
) -> Floats:
    """Return the mean output over the background for each coalition."""
    own = np.ones((len(members), row.size), dtype=bool)
    for player, group in enumerate(groups):
        own[:, list(group)] = members[:, [player]]
    total: Floats | float = 0.0
    for typical in background:
        total = total + np.asarray(model(np.where(own, row, typical)), dtype=np.float64)
    return np.asarray(total / len(background)).reshape(len(members), -1)
