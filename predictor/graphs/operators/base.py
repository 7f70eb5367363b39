"""What the catalogue says of an operator: its output shapes and its operations.

Standard library only. An operator's shape rule takes a Call and gives its outputs; its cost rule
gives (macs, flops other than those of the macs). One multiply-accumulate is two flops; an
addition, multiplication, division, comparison or special function (exp, sqrt, erf, tanh ...) is
one; moving, selecting and casting is none.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from berth.pilot.protobuf import Problem
from berth.predictor.graphs.onnx_parts import Attributes
from berth.predictor.graphs.values import Tensor


class Family(enum.StrEnum):
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
    """No bytes move: reshape, squeeze ..."""
    SELECTION = "selection"
    QUANTISATION = "quantisation"
    SHAPE = "shape"
    """Known without running."""
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Call:
    """One operator with its inputs and attributes."""

    operator: str
    attributes: Attributes
    inputs: Sequence[Tensor | None]
    outputs: int
    """Number of outputs that are asked for."""
    opset: int

    def tensor(self, position: int) -> Tensor:
        """Return an input that must be there. Raises Problem where it is not."""
        tensor = self.inputs[position] if position < len(self.inputs) else None
        if tensor is None:
            raise Problem(f"lacks its input {position}")
        return tensor

    def optional(self, position: int) -> Tensor | None:
        """Return an input that may be absent."""
        return self.inputs[position] if position < len(self.inputs) else None

    def integer(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def number(self, name: str, default: float) -> float:
        """Return a float attribute."""
        value = self.attributes.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def text(self, name: str, default: str) -> str:
        """Return a string attribute."""
        value = self.attributes.get(name)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else default

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return an attribute that is a list of integers."""
        value = self.attributes.get(name)
        if isinstance(value, tuple) and not isinstance(value, Tensor):
            return tuple(int(x) for x in value if isinstance(x, int))
        return None

    def given_integers(self, name: str, position: int) -> tuple[int, ...] | None:
        """Return an attribute that became an input in a later opset; None where absent.

        Raises Problem where it is computed while the model runs.
        """
        listed = self.integers(name)
        if listed is not None:
            return listed
        tensor = self.optional(position)
        if tensor is None:
            return None
        return self.known(position, name)

    def known(self, position: int, meaning: str) -> tuple[int, ...]:
        """Return the values of a constant integer input."""
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
    """A catalogue entry."""

    name: str
    """Its name, with its domain before a colon where that is not ONNX's own."""
    family: Family
    shapes: ShapeRule
    cost: CostRule


CATALOGUE: dict[str, Operator] = {}


def add(names: str, family: Family, shapes: ShapeRule, cost: CostRule) -> None:
    """Enter operators, blank-separated, that share their rules."""
    for name in names.split():
        if name in CATALOGUE:
            raise ValueError(f"{name} is in the catalogue twice")
        CATALOGUE[name] = Operator(name, family, shapes, cost)


def nothing(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    """Count no arithmetic."""
    return 0, 0


def each_output(flops: int) -> CostRule:
    """Count so many operations for each element of the first output."""

    def cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
        return 0, flops * outputs[0].elements

    return cost


def each_input(flops: int) -> CostRule:
    """Count so many operations for each element of the first input."""

    def cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
        return 0, flops * call.tensor(0).elements

    return cost


def like_first(call: Call) -> list[Tensor]:
    """Return one output like the first input."""
    first = call.tensor(0)
    return [Tensor(first.dtype, first.shape)]


def ceil_div(numerator: int, denominator: int) -> int:
    """Divide and round up."""
    return -(-numerator // denominator)
