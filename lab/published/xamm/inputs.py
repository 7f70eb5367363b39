"""Equation 3: embedding of the sample, AMM of the source, AMM of the target, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from berth.predictor.families.program.ceilings import Floats


def joined(
    embedded: Floats,
    sources: Sequence[str],
    targets: Sequence[str],
    machines: Mapping[str, Floats] | None,
) -> Floats:
    """(Samples x targets) x inputs, samples first; without ``machines`` the embedding alone."""
    repeated = np.repeat(embedded, len(targets), axis=0)
    if machines is None:
        return repeated
    here = np.repeat(np.array([machines[name] for name in sources]), len(targets), axis=0)
    there = np.tile(np.array([machines[name] for name in targets]), (len(embedded), 1))
    return np.hstack([repeated, here, there])


def one_hot(machines: Sequence[str]) -> dict[str, Floats]:
    """Names as vectors."""
    return dict(zip(machines, np.eye(len(machines)), strict=True))
