"""Shape and cost rules of operators that resample images or volumes, and of Fourier transforms."""

from __future__ import annotations

import math

from berth.pilot.protobuf import Problem
from berth.predictor.graphs.operators.base import (
    Call,
    OpFamily,
    add,
    each_input,
    each_output,
    nothing,
)
from berth.predictor.graphs.values import Tensor, axis_of, checked


def _resize(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    rank = len(first.shape)
    listed = call.integers("axes")
    axes = [axis_of(a, rank) for a in listed] if listed else list(range(rank))
    old = call.operator == "Upsample"
    sizes, scales = call.optional(3), call.optional(1 if old else 2)
    wanted = list(first.shape)
    if sizes is not None and sizes.shape != (0,):
        target = call.known(3, "sizes")
        if len(target) != len(axes):
            raise Problem(f"resizes {list(first.shape)} to {list(target)}")
        policy = call.text("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            ratios = [size / max(first.shape[a], 1) for a, size in zip(axes, target, strict=True)]
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            target = tuple(math.floor(first.shape[axis] * ratio + 0.5) for axis in axes)
        for axis, size in zip(axes, target, strict=True):
            wanted[axis] = size
    elif scales is not None:
        if scales.values is None or len(scales.values) != len(axes):
            raise Problem("has scales that only a run can know, so its shape is unknown")
        for axis, scale in zip(axes, scales.values, strict=True):
            if not 0 < scale < 2**16:
                raise Problem(f"scales by {scale}")
            wanted[axis] = math.floor(first.shape[axis] * scale)
    else:
        raise Problem("has neither sizes nor scales")
    return [Tensor(first.dtype, checked(wanted))]


def _resize_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    # Nearest copies. Linear blends two values along each resized axis: two products, one sum.
    # Cubic blends four: four products, three sums.
    mode = call.text("mode", "nearest")
    shape = call.tensor(0).shape
    axes = sum(a != b for a, b in zip(shape, outputs[0].shape, strict=True))
    each = {"linear": 3, "cubic": 7}.get(mode, 0)
    return 0, each * axes * outputs[0].elements


def _grid_sample(call: Call) -> list[Tensor]:
    first, grid = call.tensor(0), call.tensor(1)
    if len(first.shape) < 3 or len(grid.shape) != len(first.shape):
        raise Problem(f"samples {list(first.shape)} at {list(grid.shape)}")
    return [Tensor(first.dtype, checked((*first.shape[:2], *grid.shape[1:-1])))]


def _grid_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    mode = call.text("mode", "linear")
    each = {"nearest": 1, "cubic": 35, "bicubic": 35}.get(mode, 7)
    return 0, each * outputs[0].elements


def _regions(call: Call) -> list[Tensor]:
    first, regions = call.tensor(0), call.tensor(1)
    if call.operator == "MaxRoiPool":
        height, width = (call.integers("pooled_shape") or (1, 1))[:2]
    else:
        height, width = call.integer("output_height", 1), call.integer("output_width", 1)
    if len(first.shape) != 4 or not regions.shape:
        raise Problem(f"takes regions {list(regions.shape)} of {list(first.shape)}")
    return [Tensor(first.dtype, checked((regions.shape[0], first.shape[1], height, width)))]


def _regions_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    samples = max(call.integer("sampling_ratio", 2), 1) ** 2
    return 0, 8 * samples * outputs[0].elements


def _columns_to_image(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    image, block = call.known(1, "image's shape"), call.known(2, "block's shape")
    if len(first.shape) != 3 or math.prod(block) < 1 or first.shape[1] % math.prod(block):
        raise Problem(f"makes an image {list(image)} of {list(first.shape)}")
    channels = first.shape[1] // math.prod(block)
    return [Tensor(first.dtype, checked((first.shape[0], channels, *image)))]


def _crop(call: Call) -> list[Tensor]:
    first, wanted = call.tensor(0), call.known(1, "shape")
    axes = call.integers("axes") or tuple(range(len(first.shape)))
    if len(axes) != len(wanted):
        raise Problem(f"crops {list(first.shape)} to {list(wanted)}")
    sizes = list(first.shape)
    for axis, size in zip(axes, wanted, strict=True):
        sizes[axis_of(axis, len(sizes))] = size
    return [Tensor(first.dtype, checked(sizes))]


def _affine_grid(call: Call) -> list[Tensor]:
    sizes = call.known(1, "size")
    if len(sizes) < 4:
        raise Problem(f"makes a grid of {list(sizes)}")
    return [Tensor(call.tensor(0).dtype, checked((sizes[0], *sizes[2:], len(sizes) - 2)))]


def _unpool(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    if call.optional(2) is not None:
        return [Tensor(first.dtype, checked(call.known(2, "output's shape")))]
    kernel = call.integers("kernel_shape") or ()
    strides = call.integers("strides") or (1,) * len(kernel)
    if len(first.shape) != len(kernel) + 2 or len(strides) != len(kernel):
        raise Problem(f"unpools {list(first.shape)} by a window {list(kernel)}")
    spatial = [
        (size - 1) * step + reach
        for size, step, reach in zip(first.shape[2:], strides, kernel, strict=True)
    ]
    return [Tensor(first.dtype, checked((*first.shape[:2], *spatial)))]


def _fourier_axis(call: Call) -> int:
    rank = len(call.tensor(0).shape)
    if call.opset < 20:
        return axis_of(call.integer("axis", 1), rank)
    return axis_of(call.known(2, "axis")[0] if call.optional(2) else -2, rank)


def _fourier(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    if len(first.shape) < 2:
        raise Problem(f"transforms {list(first.shape)}")
    place = _fourier_axis(call)
    lengths = call.known(1, "length")[:1] if call.optional(1) else ()
    half, inverse = bool(call.integer("onesided", 0)), bool(call.integer("inverse", 0))
    # Half of a spectrum stands for a real signal.
    length = lengths[0] if lengths else first.shape[place]
    if half and inverse and not lengths:
        length = 2 * (length - 1)
    sizes = list(first.shape)
    sizes[place] = length // 2 + 1 if half and not inverse else length
    sizes[-1] = 1 if half and inverse else 2
    return [Tensor(first.dtype, checked(sizes))]


def _fourier_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    # 5 n log2 n real operations for a complex transform of n points (Cooley-Tukey).
    first = call.tensor(0)
    length = max(first.shape[_fourier_axis(call)], 2)
    return 0, 5 * first.elements // max(first.shape[-1], 1) * length.bit_length()


def _short_time(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    step = call.known(1, "frame step")[:1]
    length = call.known(3, "frame length")[:1] if call.optional(3) else call.tensor(2).shape[:1]
    if len(first.shape) < 2 or not step or not length or step[0] < 1 or length[0] < 1:
        raise Problem(f"transforms {list(first.shape)} by frames")
    frames = max((first.shape[1] - length[0]) // step[0] + 1, 0)
    bins = length[0] // 2 + 1 if call.integer("onesided", 1) else length[0]
    return [Tensor(first.dtype, checked((first.shape[0], frames, bins, 2)))]


def _short_time_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    return 0, 5 * outputs[0].elements // 2 * max(outputs[0].shape[2], 2).bit_length()


add("Resize Upsample", OpFamily.RESAMPLING, _resize, _resize_cost)
add("GridSample", OpFamily.RESAMPLING, _grid_sample, _grid_cost)
add("RoiAlign MaxRoiPool", OpFamily.RESAMPLING, _regions, _regions_cost)
add("Col2Im", OpFamily.RESAMPLING, _columns_to_image, each_input(1))
add("CenterCropPad", OpFamily.MOVEMENT, _crop, nothing)
add("AffineGrid", OpFamily.RESAMPLING, _affine_grid, each_output(4))
add("MaxUnpool", OpFamily.RESAMPLING, _unpool, nothing)
add("DFT", OpFamily.RESAMPLING, _fourier, _fourier_cost)
add("STFT", OpFamily.RESAMPLING, _short_time, _short_time_cost)
