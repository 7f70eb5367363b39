"""Convolutions, products, normalisations, pools and reductions in PyTorch.

Batch normalisation uses the batch's statistics while gradients are taken, as training does.
"""

from __future__ import annotations

from typing import Any

from berth.pilot.dl.onnx_engine import Refused
from berth.pilot.dl.torch_operators import OPERATORS, Node, Rule, rule, sided


def _padded(t: Any, n: Node, x: Any, spatial: int, window: list[int], fill: float) -> Any:
    """(input, symmetric padding left to the operator)."""
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
def _einsum(t: Any, n: Node, *given: Any) -> Any:
    return t.einsum(n.get("equation", ""), *given)


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
