"""Folds over groups of rows that resemble each other: kernels, applications, models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from berth.pilot.errors import UsageError


def folds(groups: Sequence[str], count: int, seed: int) -> list[list[int]]:
    """Row indices of each of ``count`` folds; all rows of a group are in one fold.

    Raises UsageError where there are fewer groups than folds.
    """
    names = sorted(set(groups))
    if len(names) < count:
        raise UsageError(
            f"{len(names)} groups are fewer than the {count} folds asked for",
            hint="measure more kernels or applications, or ask for fewer folds",
        )
    order = np.random.default_rng(seed).permutation(len(names))
    fold_of = {names[int(n)]: i % count for i, n in enumerate(order)}
    return [[r for r, g in enumerate(groups) if fold_of[g] == f] for f in range(count)]
