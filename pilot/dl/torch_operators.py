"""The table of PyTorch functions for ONNX operators, and the functions that do arithmetic.

Each function takes torch, the node and the node's input tensors (None for an omitted input).
Element-wise operators come first, then convolutions, products, normalisations, pooling and
reductions; ``torch_shapes`` has the operators that move and reshape. Batch normalisation uses the
batch's statistics while gradients are recorded, as in training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from berth.pilot.dl.onnx_engine import Refused


@dataclass(frozen=True, slots=True)
class Node:
    """A node of an ONNX graph with its attributes as Python values."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def get(self, name: str, default: Any) -> Any:
        """Return an attribute's value, bytes decoded as text, or ``default`` where it is absent."""
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value


Rule = Callable[..., Any]
OPERATORS: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the decorated function for the ONNX operators with these names."""

    def enter(function: Rule) -> Rule:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return enter


def _enter_plain() -> None:
    """Register the operators that are a single torch function of their inputs, and ``alpha``."""
    for name in ("Relu", "Sigmoid", "Tanh", "Sqrt", "Exp", "Log", "Erf", "Sin", "Cos", "Neg",
                 "Abs", "Floor", "Ceil", "Reciprocal"):  # fmt: skip
        called = name.lower()
        OPERATORS[name] = lambda t, n, x, called=called: getattr(t, called)(x)
    OPERATORS["Not"] = lambda t, n, x: t.logical_not(x)
    OPERATORS["HardSwish"] = lambda t, n, x: t.nn.functional.hardswish(x)
    OPERATORS["Softplus"] = lambda t, n, x: t.nn.functional.softplus(x)
    OPERATORS["LeakyRelu"] = lambda t, n, x: t.nn.functional.leaky_relu(x, n.get("alpha", 0.01))
    OPERATORS["Elu"] = lambda t, n, x: t.nn.functional.elu(x, n.get("alpha", 1.0))
    for name, called in (("Add", "add"), ("Sub", "sub"), ("Mul", "mul"), ("Pow", "pow"),
                         ("MatMul", "matmul"), ("Equal", "eq"), ("Greater", "gt"), ("Less", "lt"),
                         ("And", "logical_and"), ("Or", "logical_or")):  # fmt: skip
        OPERATORS[name] = lambda t, n, a, b, called=called: getattr(t, called)(*_near(a, b))


def _near(a: Any, b: Any) -> tuple[Any, Any]:
    """Return two operands on one device and, if both are floats, in one type.

    The operand with fewer elements is converted to the other's device and type.
    """
    if a.numel() < b.numel():
        return on(a, b), b
    return a, on(b, a)


def on(x: Any, like: Any) -> Any:
    """Return tensor ``x`` on the device of ``like`` and, if both are floats, in its type.

    Copies of constants are cached on ``x``.
    """
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


@rule("Identity", "Dropout")
def _identity(t: Any, n: Node, x: Any, *_: Any) -> Any:
    return x


@rule("Gelu")
def _gelu(t: Any, n: Node, x: Any) -> Any:
    return t.nn.functional.gelu(x, approximate=n.get("approximate", "none"))


@rule("HardSigmoid")
def _hard_sigmoid(t: Any, n: Node, x: Any) -> Any:
    return t.clamp(n.get("alpha", 0.2) * x + n.get("beta", 0.5), 0, 1)


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
    """Return ONNX's padding [begin..., end...] in PyTorch's order: pairs, last axis first."""
    return [pads[axis + side * axes] for axis in reversed(range(axes)) for side in (0, 1)]


def _padded(t: Any, n: Node, x: Any, spatial: int, window: list[int], fill: float) -> Any:
    """Return an operator's input tensor and the symmetric padding that the operator applies.

    Asymmetric padding is already applied to the returned tensor.
    """
    pads = list(n.get("pads", [0] * 2 * spatial))
    auto = n.get("auto_pad", "NOTSET")
    if auto.startswith("SAME"):
        strides = n.get("strides", [1] * spatial)
        needed = [max((-(-size // s) - 1) * s + k - size, 0)
                  for size, s, k in zip(x.shape[2:], strides, window, strict=True)]  # fmt: skip
        small, large = [p // 2 for p in needed], [p - p // 2 for p in needed]
        pads = small + large if auto == "SAME_UPPER" else large + small
    if pads[:spatial] == pads[spatial:]:
        return x, pads[:spatial]
    return t.nn.functional.pad(x, sided(pads, spatial), value=fill), [0] * spatial


@rule("Conv")
def _conv(t: Any, n: Node, x: Any, weight: Any, bias: Any = None) -> Any:
    spatial = weight.dim() - 2
    dilations = n.get("dilations", [1] * spatial)
    window = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    x, padding = _padded(t, n, x, spatial, window, 0.0)
    called = getattr(t.nn.functional, f"conv{spatial}d")
    return called(x, weight, bias, n.get("strides", [1] * spatial), padding, dilations,
                  n.get("group", 1))  # fmt: skip


@rule("ConvTranspose")
def _conv_transpose(t: Any, n: Node, x: Any, weight: Any, bias: Any = None) -> Any:
    spatial = weight.dim() - 2
    pads = n.get("pads", [0] * 2 * spatial)
    if n.get("auto_pad", "NOTSET") != "NOTSET" or pads[:spatial] != pads[spatial:]:
        raise Refused("a transposed convolution with uneven padding")
    called = getattr(t.nn.functional, f"conv_transpose{spatial}d")
    return called(x, weight, bias, n.get("strides", [1] * spatial), pads[:spatial],
                  n.get("output_padding", [0] * spatial), n.get("group", 1),
                  n.get("dilations", [1] * spatial))  # fmt: skip


@rule("Gemm")
def _gemm(t: Any, n: Node, a: Any, b: Any, c: Any = None) -> Any:
    plain = n.get("alpha", 1.0) == 1 and n.get("beta", 1.0) == 1 and not n.get("transA", 0)
    if plain and n.get("transB", 0) and (c is None or c.dim() == 1):
        return t.nn.functional.linear(a, b, c)
    a = a.mT if n.get("transA", 0) else a
    b = b.mT if n.get("transB", 0) else b
    out = n.get("alpha", 1.0) * (a @ b)
    return out if c is None else out + n.get("beta", 1.0) * c


@rule("Einsum")
def _einsum(t: Any, n: Node, *operands: Any) -> Any:
    return t.einsum(n.get("equation", ""), *operands)


@rule("BatchNormalization")
def _batch_norm(t: Any, n: Node, x: Any, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
    training = t.is_grad_enabled()
    return t.nn.functional.batch_norm(
        x, None if training else mean, None if training else var, scale, bias,
        training=training, eps=n.get("epsilon", 1e-5),
    )  # fmt: skip


@rule("LayerNormalization")
def _layer_norm(t: Any, n: Node, x: Any, scale: Any, bias: Any = None) -> Any:
    axis = n.get("axis", -1) % x.dim()
    return t.nn.functional.layer_norm(x, x.shape[axis:], scale, bias, n.get("epsilon", 1e-5))


@rule("InstanceNormalization")
def _instance_norm(t: Any, n: Node, x: Any, scale: Any, bias: Any) -> Any:
    return t.nn.functional.instance_norm(x, weight=scale, bias=bias, eps=n.get("epsilon", 1e-5))


@rule("GroupNormalization")
def _group_norm(t: Any, n: Node, x: Any, scale: Any, bias: Any) -> Any:
    return t.nn.functional.group_norm(x, n.get("num_groups", 1), scale, bias,
                                      n.get("epsilon", 1e-5))  # fmt: skip


@rule("MaxPool")
def _max_pool(t: Any, n: Node, x: Any) -> Any:
    kernel = n.get("kernel_shape", [])
    spatial = len(kernel)
    x, padding = _padded(t, n, x, spatial, kernel, float("-inf"))
    called = getattr(t.nn.functional, f"max_pool{spatial}d")
    return called(
        x, kernel, n.get("strides", [1] * spatial), padding,
        n.get("dilations", [1] * spatial), ceil_mode=bool(n.get("ceil_mode", 0)),
    )  # fmt: skip


@rule("AveragePool")
def _average_pool(t: Any, n: Node, x: Any) -> Any:
    kernel = n.get("kernel_shape", [])
    spatial = len(kernel)
    x, padding = _padded(t, n, x, spatial, kernel, 0.0)
    called = getattr(t.nn.functional, f"avg_pool{spatial}d")
    return called(x, kernel, n.get("strides", [1] * spatial), padding,
                  ceil_mode=bool(n.get("ceil_mode", 0)),
                  count_include_pad=bool(n.get("count_include_pad", 0)))  # fmt: skip


@rule("GlobalAveragePool")
def _global_average(t: Any, n: Node, x: Any) -> Any:
    return x.mean(tuple(range(2, x.dim())), keepdim=True)


def _reduced(name: str) -> Rule:
    def reduce(t: Any, n: Node, x: Any, axes: Any = None) -> Any:
        listed = n.get("axes", None) if axes is None else axes.tolist()
        over = tuple(range(x.dim())) if listed is None else tuple(listed)
        keep = bool(n.get("keepdims", 1))
        if name == "l2":
            return t.linalg.vector_norm(x, dim=over, keepdim=keep)
        return getattr(t, name)(x, dim=over, keepdim=keep)

    return reduce


OPERATORS.update(
    ReduceMean=_reduced("mean"), ReduceSum=_reduced("sum"), ReduceMax=_reduced("amax"),
    ReduceMin=_reduced("amin"), ReduceL2=_reduced("l2"),
)  # fmt: skip
