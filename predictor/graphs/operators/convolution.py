"""Shape and cost rules of convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from berth.pilot.protobuf import Problem
from berth.predictor.graphs.operators.base import Call, OpFamily, add, ceil_div
from berth.predictor.graphs.values import INT32, Shape, Tensor, checked


def windows(call: Call, spatial: Shape, kernel: Shape, *, ceil_mode: bool = False) -> Shape:
    """Return the spatial output sizes of a convolution or pooling, as ONNX defines them.

    Raises Problem where a kernel, stride or padding is invalid.
    """
    rank = len(spatial)
    strides = _sized(call, "strides", rank, 1)
    dilations = _sized(call, "dilations", rank, 1)
    pads = _sized(call, "pads", 2 * rank, 0)
    mode = call.text("auto_pad", "NOTSET")
    sizes = []
    for axis in range(rank):
        stride, reach = strides[axis], (kernel[axis] - 1) * dilations[axis] + 1
        if stride < 1 or reach < 1:
            raise Problem("has a stride, dilation or kernel below 1")
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            sizes.append(ceil_div(spatial[axis], stride))
            continue
        padding = 0 if mode == "VALID" else pads[axis] + pads[axis + rank]
        room = spatial[axis] + padding - reach
        if room < 0:
            raise Problem(f"has a window of {reach} over {spatial[axis]} + {padding} padded")
        size = (ceil_div(room, stride) if ceil_mode else room // stride) + 1
        if ceil_mode and (size - 1) * stride >= spatial[axis] + pads[axis]:
            size -= 1  # a window may not start in the end padding
        sizes.append(size)
    return tuple(sizes)


def _sized(call: Call, name: str, length: int, default: int) -> tuple[int, ...]:
    values = call.integers(name)
    if not values:
        return (default,) * length
    if len(values) != length:
        raise Problem(f"has {len(values)} {name} where {length} are needed")
    return values


def _weights(call: Call, data: Shape, weight: Shape) -> int:
    """Return the number of groups. Raises Problem where data and weight shapes do not match."""
    group = call.integer("group", 1)
    if len(data) < 3 or len(weight) != len(data):
        raise Problem(f"convolves {list(data)} with weights {list(weight)}")
    if group < 1 or data[1] % group or weight[0] % group:
        raise Problem(f"has {group} groups for {data[1]} channels and weights {list(weight)}")
    return group


def _conv(call: Call) -> list[Tensor]:
    scattered = call.operator == "QLinearConv"
    data, weight = call.tensor(0), call.tensor(3 if scattered else 1)
    group = _weights(call, data.shape, weight.shape)
    if weight.shape[1] * group != data.shape[1]:
        raise Problem(f"convolves {list(data.shape)} with weights {list(weight.shape)}")
    spatial = windows(call, data.shape[2:], weight.shape[2:])
    dtype = {"ConvInteger": INT32}.get(call.operator, data.dtype)
    return [Tensor(dtype, checked((data.shape[0], weight.shape[0], *spatial)))]


def _conv_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    weight = call.tensor(3 if call.operator == "QLinearConv" else 1).shape
    biased = call.optional(8 if call.operator == "QLinearConv" else 2) is not None
    elements = outputs[0].elements
    return elements * math.prod(weight[1:]), elements if biased else 0


def _transposed(call: Call) -> list[Tensor]:
    data, weight = call.tensor(0), call.tensor(1)
    group = _weights(call, data.shape, weight.shape)
    if weight.shape[0] != data.shape[1]:
        raise Problem(f"convolves {list(data.shape)} with weights {list(weight.shape)}")
    rank = len(data.shape) - 2
    strides = _sized(call, "strides", rank, 1)
    dilations = _sized(call, "dilations", rank, 1)
    pads = _sized(call, "pads", 2 * rank, 0)
    extra = _sized(call, "output_padding", rank, 0)
    asked = call.integers("output_shape")
    same = call.text("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER")
    spatial: Sequence[int]
    if asked:
        spatial = asked[-rank:]
    elif same:
        spatial = [size * step for size, step in zip(data.shape[2:], strides, strict=True)]
    else:
        spatial = [
            strides[n] * (data.shape[n + 2] - 1)
            + extra[n]
            + (weight.shape[n + 2] - 1) * dilations[n]
            + 1
            - pads[n]
            - pads[n + rank]
            for n in range(rank)
        ]
    return [Tensor(data.dtype, checked((data.shape[0], weight.shape[1] * group, *spatial)))]


def _transposed_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    biased = outputs[0].elements if call.optional(2) is not None else 0
    return call.tensor(0).elements * math.prod(call.tensor(1).shape[1:]), biased


def _deformable(call: Call) -> list[Tensor]:
    data, weight = call.tensor(0), call.tensor(1)
    _weights(call, data.shape, weight.shape)
    spatial = windows(call, data.shape[2:], weight.shape[2:])
    return [Tensor(data.dtype, checked((data.shape[0], weight.shape[0], *spatial)))]


def _deformable_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    # A bilinear sample (7 operations per channel) at each offset, then the convolution.
    data, weight, out = call.tensor(0).shape, call.tensor(1).shape, outputs[0]
    samples = out.elements // max(out.shape[1], 1) * data[1] * math.prod(weight[2:])
    return out.elements * math.prod(weight[1:]), 7 * samples


def _causal(call: Call) -> list[Tensor]:
    data, weight = call.tensor(0), call.tensor(1)
    state = (*data.shape[:2], max(weight.shape[-1] - 1, 0)) if len(data.shape) >= 2 else data.shape
    return [Tensor(data.dtype, data.shape), Tensor(data.dtype, checked(state))][: call.outputs]


def _causal_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    return outputs[0].elements * math.prod(call.tensor(1).shape[1:]), 0


add("Conv ConvInteger QLinearConv com.microsoft:FusedConv", OpFamily.CONVOLUTION, _conv, _conv_cost)
add("ConvTranspose", OpFamily.CONVOLUTION, _transposed, _transposed_cost)
add("DeformConv", OpFamily.CONVOLUTION, _deformable, _deformable_cost)
add("CausalConvWithState", OpFamily.CONVOLUTION, _causal, _causal_cost)
