"""Shapley values: how much each group of inputs moves a prediction away from that for typical
inputs.

In the game of the Shapley values, a coalition is a set of groups. Groups in the coalition have the
workload's own values, and all other groups have typical values (the background). Up to
``MOST_EXACT`` groups, all coalitions are evaluated; beyond that, the effects are means over a fixed
random set of group orders and the reversed orders. In both cases, the base plus all effects equals
the prediction exactly. The model may be any function from input rows to outputs.

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
"""A function from input rows (n x inputs) to the logs of its outputs (n x platforms)."""

MOST_EXACT = 10
"""Largest number of groups for which all coalitions are evaluated (2^10 = 1,024 model rows)."""
ORDERS = 64
"""Number of group orders that are averaged where there are more than ``MOST_EXACT`` groups."""
SEED = 20260101
"""Seed of the random group orders; fixed, so that equal inputs give equal effects."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """The effect of each group of inputs: ``base + effects.sum(axis=0)`` equals ``value``."""

    base: Floats
    """Model outputs for the typical inputs, one per platform."""
    value: Floats
    """Model outputs for the workload's own inputs, one per platform."""
    effects: Floats
    """Effects (groups x platforms), in the unit of the outputs."""


def attribute(
    model: Model, row: Floats, background: Floats, groups: Sequence[Sequence[int]]
) -> Attribution:
    """Return how much each group of input columns contributes to ``model(row)``.

    - ``row``: the workload's inputs;
    - ``background``: typical inputs (m x inputs); outputs are averaged over its m rows;
    - ``groups``: column numbers of each group; columns in no group keep the workload's own values.

    Raises ValueError if a column is in two groups or the shapes do not match.
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
    """Return how much each input group moves the prediction: Shapley values over all coalitions."""
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
    """Return how much each input group moves the prediction: means over ``ORDERS`` random group
    orders."""
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
    """Return the model outputs of each coalition of input groups, averaged over the typical inputs.

    ``members`` (coalitions x groups) is True where a group has the workload's own values. The
    result is coalitions x platforms.
    """
    own = np.ones((len(members), row.size), dtype=bool)
    for player, group in enumerate(groups):
        own[:, list(group)] = members[:, [player]]
    total: Floats | float = 0.0
    for typical in background:
        total = total + np.asarray(model(np.where(own, row, typical)), dtype=np.float64)
    return np.asarray(total / len(background)).reshape(len(members), -1)
