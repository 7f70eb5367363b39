"""The operator catalogue: shapes and operations of every operator that Berth knows.

Standard library only. ``CATALOGUE`` maps an operator's name to its rules; onnxruntime's own
operators stand there as ``com.microsoft:Name``.
"""

from berth.predictor.graphs.operators import (
    attention,
    convolution,
    elementwise,
    matmul,
    movement,
    normalise,
    pooling,
    resample,
    sources,
)
from berth.predictor.graphs.operators.base import CATALOGUE, Call, Family, Operator

__all__ = ["CATALOGUE", "Call", "Family", "Operator"]

_ = (
    attention, convolution, elementwise, matmul, movement, normalise, pooling, resample,
    sources,
)  # fmt: skip
