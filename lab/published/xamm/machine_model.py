"""Abstract machine models: one vector for a platform, from embeddings of its benchmark runs.

Dhakal et al., "xAMM: Attention to details improves cross-platform prediction accuracy",
Algorithm 1. Two places of the listing can be read in two ways:

* step 6 has lost its operator; the text says "scales relative to the maximum value by subtracting
  it": ``Scale.SUBTRACT``, the default; ``Scale.DIVIDE`` is the other reading of "relative to";
* option 2 is written for one sample; here it is the norm of each feature of the embedding over
  the samples, so that all three options give a vector of the embedding's width.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from berth.predictor.core.arrays import Floats

LEAK = 0.01


class Aggregation(StrEnum):
    """How many embeddings become one (options 1, 2 and 3)."""

    MEAN = "mean"
    L2 = "l2"
    VARIANCE = "variance"


class Scale(StrEnum):
    """The reading of step 6."""

    SUBTRACT = "subtract"
    DIVIDE = "divide"


def machine_model(
    embeddings: Floats, aggregation: Aggregation, scale: Scale = Scale.SUBTRACT
) -> Floats:
    """Algorithm 1: benchmark embeddings (samples x width) to one vector (width).

    Raises ValueError where there is no sample or a value is not finite.
    """
    if embeddings.ndim != 2 or not len(embeddings) or not np.isfinite(embeddings).all():
        raise ValueError("an abstract machine model needs finite embeddings of one run at least")
    if aggregation is Aggregation.MEAN:
        made = embeddings.mean(axis=0)
    elif aggregation is Aggregation.L2:
        made = np.sqrt((embeddings**2).sum(axis=0))
    else:
        made = embeddings.var(axis=0)
    positive = np.maximum(made, 0) + LEAK * np.maximum(-made, 0)
    damped = np.log1p(positive)
    largest = damped.max()
    if scale is Scale.SUBTRACT:
        return np.asarray(damped - largest)
    return np.asarray(damped / largest if largest > 0 else damped)
