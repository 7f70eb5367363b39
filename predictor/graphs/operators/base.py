"""The entries of the operator catalogue: each operator's rules for output shapes and operations.

An operator's shape rule takes a Call and returns the output tensors. Its cost rule returns (MACs,
other flops). One multiply-accumulate (MAC) is two flops; an addition, multiplication, division,
comparison or special function (exp, sqrt, erf, tanh ...) is one flop; moving, selecting and
casting are none. This module uses the standard library only.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from berth.pilot.protobuf import Problem
from berth.predictor.graphs.onnx_parts import Attributes
from berth.predictor.graphs.values import Tensor


class OpFamily(enum.StrEnum):
    """The kind of work that an operator does."""

    CONVOLUTION = "convolution"
    MATMUL = "matmul"
    ATTENTION = "attention"
    RECURRENT = "recurrent"
    NORMALISATION = "normalisation"
    SOFTMAX = "softmax"
    POOLING = "pooling"
    REDUCTION = "reduction"
    ACTIVATION = "activation"
    ELEMENTWISE = "elementwise"
    RESAMPLING = "resampling"
    MOVEMENT = "movement"
    VIEW = "view"
    """Moves no bytes: Reshape, Squeeze ..."""
    SELECTION = "selection"
    QUANTISATION = "quantisation"
    SHAPE = "shape"
    """Computed when the model is loaded: Shape, Size, Constant."""
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Call:
    """A node as the rules see it: operator, attributes, input tensors, number of outputs."""

    operator: str
    attributes: Attributes
    inputs: Sequence[Tensor | None]
    outputs: int
    """Number of outputs that the node names."""
    opset: int

    def tensor(self, position: int) -> Tensor:
        """Return the input at a position. Raises Problem where the node lacks that input."""
        tensor = self.inputs[position] if position < len(self.inputs) else None
        if tensor is None:
            raise Problem(f"lacks its input {position}")
        return tensor

    def optional(self, position: int) -> Tensor | None:
        """Return the input at a position, or None where the node lacks that input."""
        return self.inputs[position] if position < len(self.inputs) else None

    def integer(self, name: str, default: int) -> int:
        """Return an integer attribute, or ``default`` where it is absent or no integer."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def number(self, name: str, default: float) -> float:
        """Return a numeric attribute as a float, or ``default`` where it is absent."""
        value = self.attributes.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def text(self, name: str, default: str) -> str:
        """Return a string attribute, or ``default`` where it is absent."""
        value = self.attributes.get(name)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else default

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return an attribute that is a list of integers; None where it is absent."""
        value = self.attributes.get(name)
        if isinstance(value, tuple) and not isinstance(value, Tensor):
            return tuple(int(x) for x in value if isinstance(x, int))
        return None

    def given_integers(self, name: str, position: int) -> tuple[int, ...] | None:
        """Return integers that older opsets pass as an attribute and newer ones as an input.

        None where both are absent. Raises Problem where the input is computed at run time.
        """
        listed = self.integers(name)
        if listed is not None:
            return listed
        tensor = self.optional(position)
        if tensor is None:
            return None
        return self.known(position, name)

    def known(self, position: int, meaning: str) -> tuple[int, ...]:
        """Return the values of a constant integer input.

        Raises Problem where the values are computed at run time; ``meaning`` names them there.
        """
        tensor = self.tensor(position)
        if tensor.values is None:
            raise Problem(
                f"takes its {meaning} from data that only a run can know, so its shape is unknown",
                "export the model with fixed shapes",
            )
        try:
            return tuple(int(value) for value in tensor.values)
        except (ValueError, OverflowError):
            raise Problem(f"has {meaning} that is not a number") from None


ShapeRule: TypeAlias = Callable[[Call], list[Tensor]]
CostRule: TypeAlias = Callable[[Call, list[Tensor]], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Operator:
    """An entry of the operator catalogue: the operator's name, family and rules."""

    name: str
    """The operator's name, with its domain and a colon in front where that is not ONNX's own."""
    family: OpFamily
    shapes: ShapeRule
    cost: CostRule


CATALOGUE: dict[str, Operator] = {}


def add(names: str, family: OpFamily, shapes: ShapeRule, cost: CostRule) -> None:
    """Add operators that share their rules to the catalogue; ``names`` are separated by blanks.

    Raises ValueError for a name that the catalogue already has.
    """
    for name in names.split():
        if name in CATALOGUE:
            raise ValueError(f"{name} is in the catalogue twice")
        CATALOGUE[name] = Operator(name, family, shapes, cost)


def nothing(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    """Return (0, 0): the cost rule of operators that do no arithmetic."""
    return 0, 0


def each_output(flops: int) -> CostRule:
    """Return a cost rule of ``flops`` operations per element of the first output."""

    def cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
        return 0, flops * outputs[0].elements

    return cost


def each_input(flops: int) -> CostRule:
    """Return a cost rule of ``flops`` operations per element of the first input."""

    def cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
        return 0, flops * call.tensor(0).elements

    return cost


def like_first(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    return [Tensor(first.dtype, first.shape)]


def ceil_div(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
