"""What PyTorch calls for each ONNX operator: the table, and operators element by element.

Each rule takes torch, the node and its inputs' tensors (None: left out). Convolutions, products,
normalisations and the like are in ``torch_layers``, what moves and reshapes in ``torch_shapes``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from berth.pilot.dl.onnx_engine import Refused


@dataclass(frozen=True, slots=True)
class Node:
    """One node with its attributes as Python values."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def get(self, name: str, default: Any) -> Any:
        """An attribute, text decoded."""
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value


Rule = Callable[..., Any]
OPERATORS: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enters a function for the operators of these names."""

    def enter(function: Rule) -> Rule:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return enter


def _enter_plain() -> None:
    """Operators that are one function of their inputs."""
    for name in ("Relu", "Sigmoid", "Tanh", "Sqrt", "Exp", "Log", "Erf", "Sin", "Cos", "Neg",
                 "Abs", "Floor", "Ceil", "Reciprocal"):  # fmt: skip
        called = name.lower()
        OPERATORS[name] = lambda t, n, x, called=called: getattr(t, called)(x)
    for name, called in (("Add", "add"), ("Sub", "sub"), ("Mul", "mul"), ("Pow", "pow"),
                         ("MatMul", "matmul"), ("Equal", "eq"), ("Greater", "gt"), ("Less", "lt"),
                         ("And", "logical_and"), ("Or", "logical_or")):  # fmt: skip
        OPERATORS[name] = lambda t, n, a, b, called=called: getattr(t, called)(*_near(a, b))


def _near(a: Any, b: Any) -> tuple[Any, Any]:
    """Two operands on one device and, of floats, in one type: the smaller follows the larger."""
    if a.numel() < b.numel():
        return on(a, b), b
    return a, on(b, a)


def on(x: Any, like: Any) -> Any:
    """``x`` on the device of ``like``, floats in its type; a constant keeps its copies."""
    both = x.is_floating_point() and like.is_floating_point()
    dtype = like.dtype if both else x.dtype
    if x.device == like.device and x.dtype == dtype:
        return x
    if x.requires_grad:
        return x.to(like.device, dtype)
    copies = x.__dict__.setdefault("berth_copies", {})
    if (like.device, dtype) not in copies:
        copies[like.device, dtype] = x.to(like.device, dtype)
    return copies[like.device, dtype]


_enter_plain()


@rule("Div")
def _div(t: Any, n: Node, a: Any, b: Any) -> Any:
    whole = not (a.is_floating_point() or b.is_floating_point())
    return t.div(*_near(a, b), rounding_mode="trunc" if whole else None)


@rule("Not")
def _not(t: Any, n: Node, x: Any) -> Any:
    return t.logical_not(x)


@rule("Identity", "Dropout")
def _identity(t: Any, n: Node, x: Any, *_: Any) -> Any:
    return x


@rule("Gelu")
def _gelu(t: Any, n: Node, x: Any) -> Any:
    return t.nn.functional.gelu(x, approximate=n.get("approximate", "none"))


@rule("HardSwish")
def _hard_swish(t: Any, n: Node, x: Any) -> Any:
    return t.nn.functional.hardswish(x)


@rule("HardSigmoid")
def _hard_sigmoid(t: Any, n: Node, x: Any) -> Any:
    return t.clamp(n.get("alpha", 0.2) * x + n.get("beta", 0.5), 0, 1)


@rule("LeakyRelu")
def _leaky(t: Any, n: Node, x: Any) -> Any:
    return t.nn.functional.leaky_relu(x, n.get("alpha", 0.01))


@rule("Elu")
def _elu(t: Any, n: Node, x: Any) -> Any:
    return t.nn.functional.elu(x, n.get("alpha", 1.0))


@rule("Softplus")
def _softplus(t: Any, n: Node, x: Any) -> Any:
    return t.nn.functional.softplus(x)


@rule("Clip")
def _clip(t: Any, n: Node, x: Any, low: Any = None, high: Any = None) -> Any:
    return t.clamp(x, *(None if end is None else on(end, x) for end in (low, high)))


@rule("Softmax")
def _softmax(t: Any, n: Node, x: Any) -> Any:
    return t.softmax(x, n.get("axis", -1))


@rule("Where")
def _where(t: Any, n: Node, condition: Any, a: Any, b: Any) -> Any:
    a, b = _near(a, b)
    return t.where(on(condition, a), a, b)


@rule("Cast")
def _cast(t: Any, n: Node, x: Any) -> Any:
    to = n.get("to", 1)
    if to == 1 and x.is_floating_point():
        return x
    if to not in _CASTS:
        raise Refused(f"a cast to ONNX type {to}")
    return x.to(getattr(t, _CASTS[to]))


_CASTS = {
    1: "float32", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 16: "bfloat16",
}  # fmt: skip


def sided(pads: list[int], axes: int) -> list[int]:
    """ONNX's [begin..., end...] as PyTorch's last axis first."""
    return [pads[axis + side * axes] for axis in reversed(range(axes)) for side in (0, 1)]
