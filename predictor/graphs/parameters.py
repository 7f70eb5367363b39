"""Estimate the number of parameters that the framework would report for an exported ONNX model.

This module uses the standard library only. The constants in a file are not exactly the model's
parameters: exporters fold batch normalisations into convolutions, store equal vectors once, store
running statistics, masks and tables beside the weights, and expand tables of relative positions.
The rules:

* constants of convolutions, matrix products, attention, recurrent layers and normalisations
  count; for a batch normalisation its scale and bias count, its running statistics do not;
* tables that Gather reads, constants that are concatenated or added to activations, and vectors
  that scale activations count; constants of several dimensions that are added to attention scores
  (masks, position biases) or multiplied with activations (tables of sines) do not;
* a constant with more than one dimension above 1 counts once, however many nodes use it (tied
  embeddings); a vector counts at each use (exporters store equal biases once);
* a convolution with a folded batch normalisation counts the two vectors that the folding removed.
  Such a convolution is recognised by the names that torch's exporters use: its output is named
  ``getitem`` and it has no bias, or its bias is named ``...weight_bias`` or ``onnx::Conv_...``.
"""

from __future__ import annotations

from collections.abc import Sequence

from berth.predictor.graphs.onnx_file import OnnxNode
from berth.predictor.graphs.operators import Call, OpFamily
from berth.predictor.graphs.values import FLOATS

_SCORES = frozenset(
    {"Add", "Sub", "Mul", "Div", "Where", "Reshape", "Squeeze", "Unsqueeze", "Cast"}
)
_WHOLE = frozenset(
    {
        OpFamily.CONVOLUTION, OpFamily.MATMUL, OpFamily.ATTENTION, OpFamily.RECURRENT,
        OpFamily.NORMALISATION, OpFamily.UNKNOWN,
    }
)  # fmt: skip
_PLACES: dict[str, tuple[int, ...]] = {
    "BatchNormalization": (1, 2),
    "Gather": (0,),
    "PRelu": (1,),
    "QLinearConv": (3, 8),
    "QLinearMatMul": (3,),
    "ConvInteger": (1,),
    "MatMulInteger": (1,),
}
_JOINED = frozenset({"Add", "Sub", "Sum", "Concat", "BiasGelu"})
_SCALED = frozenset({"Mul", "Div"})
_PACKED = frozenset({2, 3, 21, 22, 25, 26})
FOLDED_WITHOUT_BIAS, FOLDED_WITH_BIAS, IN_SCORES = 2, 1, 4


class Roles:
    """Decides which constants are parameters, and remembers which were already counted."""

    def __init__(self, nodes: Sequence[OnnxNode]) -> None:
        self._scores = _score_names(nodes)
        self._roots: dict[bytes, bytes] = {}
        self._seen: set[bytes] = set()

    def hints(self, node: OnnxNode) -> int:
        """Return flags that the names of a node's tensors give; 0 for none.

        FOLDED_WITHOUT_BIAS or FOLDED_WITH_BIAS: a convolution with a folded batch normalisation.
        IN_SCORES: a sum that leads to attention scores.
        """
        if node.operator == "Conv":
            if len(node.inputs) < 3:
                folded = node.outputs[:1] and node.outputs[0].startswith(b"getitem")
                return FOLDED_WITHOUT_BIAS if folded else 0
            bias = node.inputs[2]
            if bias.endswith(b"weight_bias") or bias.startswith(b"onnx::Conv_"):
                return FOLDED_WITH_BIAS
        elif node.operator in ("Add", "Sub") and not self._scores.isdisjoint(node.inputs):
            return IN_SCORES
        return 0

    def folded(self, node: OnnxNode) -> None:
        """Record that a folded node's output is derived from the constant that is its input 0."""
        if node.inputs and node.outputs:
            root = node.inputs[0]
            self._roots[node.outputs[0]] = self._roots.get(root, root)

    def again(self, name: bytes, elements: int) -> int:
        """Return ``elements`` if this constant was counted before, otherwise 0."""
        root = self._roots.get(name, name)
        if root in self._seen:
            return elements
        self._seen.add(root)
        return 0


def counted(family: OpFamily, call: Call, hints: int) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Return a node's number of parameters, and the inputs that count only once per model.

    Each such input is (position, number of elements).
    """
    total, once = 0, []
    for position, tensor in enumerate(call.inputs):
        if tensor is None or not tensor.stored or not _is_parameter(family, call, position, hints):
            continue
        if tensor.stored == 1 and tensor.elements > 1:
            continue  # one number spread over a shape
        total += tensor.stored
        if sum(size > 1 for size in tensor.shape) > 1:
            once.append((position, tensor.stored))
    if call.operator == "MatMulNBits":
        packed = call.integer("K", 0) * call.integer("N", 0)
        return max(packed, 0), ((1, max(packed, 0)),) if call.optional(1) else ()
    weight = call.optional(1)
    if hints & (FOLDED_WITHOUT_BIAS | FOLDED_WITH_BIAS) and weight is not None and weight.shape:
        total += weight.shape[0] * (hints & (FOLDED_WITHOUT_BIAS | FOLDED_WITH_BIAS))
    return total, tuple(once)


def _is_parameter(family: OpFamily, call: Call, position: int, hints: int) -> bool:
    tensor, operator = call.tensor(position), call.operator
    places = _PLACES.get(operator)
    if places is not None:
        return position in places and (tensor.dtype in FLOATS or tensor.dtype in _PACKED)
    if tensor.dtype not in FLOATS:
        return False
    if family in _WHOLE:
        return True
    wide = sum(size > 1 for size in tensor.shape)
    if operator in _JOINED:
        return wide > 0 and not (hints & IN_SCORES and wide > 1)
    return operator in _SCALED and wide == 1


def stored_behind(call: Call, family: OpFamily) -> int:
    """Return the number of learnt elements in the result of a node that reads only constants.

    Concat adds those of all inputs, products and convolutions those of the weights, sines have
    none; other operators have those of the input with the most.
    """
    behind = [
        tensor.stored or 0
        if tensor is not None and (tensor.dtype in FLOATS or tensor.dtype in _PACKED)
        else 0
        for tensor in call.inputs
    ]
    if call.operator in ("Sin", "Cos"):
        return 0
    if call.operator == "Concat":
        return sum(behind)
    if family in (OpFamily.CONVOLUTION, OpFamily.MATMUL):
        return sum(behind[1:])
    return max(behind, default=0)


def _score_names(nodes: Sequence[OnnxNode]) -> set[bytes]:
    """Return the names of tensors that reach a Softmax through element-wise nodes and views."""
    scores: set[bytes] = set()
    for node in reversed(nodes):
        if node.operator == "Softmax":
            scores.update(node.inputs[:1])
        elif node.operator in _SCORES and node.outputs and node.outputs[0] in scores:
            scores.update(node.inputs)
    scores.discard(b"")
    return scores
