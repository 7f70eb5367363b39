"""The operator catalogue: rules for the output shapes and operations of each ONNX operator.

``CATALOGUE`` maps an operator's name to its rules; the names of onnxruntime's own operators are
``com.microsoft:Name``. The modules use the standard library only.
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
from berth.predictor.graphs.operators.base import CATALOGUE, Call, Operator, OpFamily

__all__ = ["CATALOGUE", "Call", "OpFamily", "Operator"]

_ = (
    attention, convolution, elementwise, matmul, movement, normalise, pooling, resample,
    sources,
)  # fmt: skip
