"""Shape rules of operators that rearrange, select or join elements and compute nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from berth.pilot.protobuf import Problem
from berth.predictor.graphs.limits import KNOWN_VALUES
from berth.predictor.graphs.operators.base import Call, OpFamily, add, like_first, nothing
from berth.predictor.graphs.operators.elementwise import spread
from berth.predictor.graphs.values import (
    INT64,
    Shape,
    Tensor,
    Values,
    axis_of,
    broadcast,
    checked,
)


def _reshape(call: Call) -> list[Tensor]:
    first, wanted = call.tensor(0), list(call.known(1, "shape"))
    total = first.elements
    if not call.integer("allowzero", 0):
        for axis, size in enumerate(wanted):
            if size == 0:
                if axis >= len(first.shape):
                    raise Problem(f"copies dimension {axis} of {list(first.shape)}")
                wanted[axis] = first.shape[axis]
    if wanted.count(-1) > 1:
        raise Problem("leaves two dimensions open")
    if -1 in wanted:
        others = math.prod(size for size in wanted if size != -1)
        wanted[wanted.index(-1)] = total // others if others > 0 else 0
    shape = checked(wanted)
    if math.prod(shape) != total:
        raise Problem(
            f"makes {list(shape)} of {list(first.shape)}, which holds {total} elements",
            "a fixed batch cannot be changed; export the model with a dynamic batch",
        )
    return [Tensor(first.dtype, shape, first.values)]


def _flatten(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    axis = call.integer("axis", 1)
    axis += len(first.shape) if axis < 0 else 0
    if not 0 <= axis <= len(first.shape):
        raise Problem(f"names axis {axis} of a tensor of rank {len(first.shape)}")
    shape = (math.prod(first.shape[:axis]), math.prod(first.shape[axis:]))
    return [Tensor(first.dtype, shape, first.values)]


def _squeeze(call: Call) -> list[Tensor]:
    first, axes = call.tensor(0), call.given_integers("axes", 1)
    rank = len(first.shape)
    if axes is None:
        gone = {axis for axis, size in enumerate(first.shape) if size == 1}
    else:
        gone = {axis_of(axis, rank) for axis in axes}
    if any(first.shape[axis] != 1 for axis in gone):
        raise Problem(f"squeezes axes {sorted(gone)} of {list(first.shape)}")
    shape = tuple(size for axis, size in enumerate(first.shape) if axis not in gone)
    return [Tensor(first.dtype, shape, first.values)]


def _unsqueeze(call: Call) -> list[Tensor]:
    first, axes = call.tensor(0), call.given_integers("axes", 1)
    if axes is None:
        raise Problem("names no axes")
    rank = len(first.shape) + len(axes)
    places = {axis_of(axis, rank) for axis in axes}
    if len(places) != len(axes):
        raise Problem("names an axis twice")
    sizes = iter(first.shape)
    shape = checked(1 if axis in places else next(sizes) for axis in range(rank))
    return [Tensor(first.dtype, shape, first.values)]


def _identity(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    return [Tensor(first.dtype, first.shape, first.values)]


def taken(values: Values | None, shape: Shape, places: Sequence[Sequence[int]]) -> Values | None:
    """Return the selected elements of an array, as a flat tuple.

    ``values`` are the array's elements, ``places`` the selected indices along each axis. None
    where the values are unknown or more than ``KNOWN_VALUES`` are selected.
    """
    if values is None or math.prod(len(row) for row in places) > KNOWN_VALUES:
        return None
    positions, step = [0], 1
    steps = []
    for size in reversed(shape):
        steps.append(step)
        step *= size
    for row, by in zip(places, reversed(steps), strict=True):
        positions = [place + n * by for place in positions for n in row]
    return tuple(values[place] for place in positions)


def _transpose(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    rank = len(first.shape)
    order = call.integers("perm") or tuple(reversed(range(rank)))
    if sorted(order) != list(range(rank)):
        raise Problem(f"permutes {list(first.shape)} by {list(order)}")
    return [Tensor(first.dtype, tuple(first.shape[axis] for axis in order))]


def _slice(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    rank = len(first.shape)
    starts, ends = call.known(1, "starts"), call.known(2, "ends")
    axes = call.known(3, "axes") if call.optional(3) else tuple(range(len(starts)))
    steps = call.known(4, "steps") if call.optional(4) else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Problem("has starts, ends, axes and steps of different lengths")
    ranges = [range(size) for size in first.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise Problem("has a step of 0")
        place = axis_of(axis, rank)
        ranges[place] = range(*slice(start, end, step).indices(first.shape[place]))
    shape = tuple(len(row) for row in ranges)
    return [Tensor(first.dtype, shape, taken(first.values, first.shape, ranges))]


def _concat(call: Call) -> list[Tensor]:
    inputs = [part for part in call.inputs if part is not None]
    if not inputs:
        raise Problem("joins nothing")
    first = inputs[0]
    rank = len(first.shape)
    axis = axis_of(call.integer("axis", 0), rank)
    for part in inputs:
        if (*part.shape[:axis], *part.shape[axis + 1 :]) != (
            *first.shape[:axis],
            *first.shape[axis + 1 :],
        ) or len(part.shape) != rank:
            raise Problem(f"joins {list(first.shape)} and {list(part.shape)} along axis {axis}")
    length = sum(part.shape[axis] for part in inputs) if rank else len(inputs)
    shape = checked((*first.shape[:axis], length, *first.shape[axis + 1 :]))
    values = None
    if rank == 1 and length <= KNOWN_VALUES and all(g.values is not None for g in inputs):
        values = tuple(value for part in inputs for value in part.values or ())
    return [Tensor(first.dtype, shape, values)]


def _split(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    axis = axis_of(call.integer("axis", 0), len(first.shape))
    size = first.shape[axis] if first.shape else 0
    parts = call.given_integers("split", 1)
    if parts is None:
        count = max(call.outputs, 1)
        each = -(-size // count)
        parts = tuple(max(min(each, size - n * each), 0) for n in range(count))
    if sum(parts) != size or len(parts) < call.outputs:
        raise Problem(f"splits {list(first.shape)} along axis {axis} into {list(parts)[:8]}")
    outputs, start = [], 0
    for part in parts[: call.outputs]:
        shape = checked((*first.shape[:axis], part, *first.shape[axis + 1 :]))
        values = first.values[start : start + part] if first.values and len(shape) == 1 else None
        outputs.append(Tensor(first.dtype, shape, values))
        start += part
    return outputs


def _expand(call: Call) -> list[Tensor]:
    first, wanted = call.tensor(0), call.known(1, "shape")
    shape = broadcast([first.shape, checked(wanted)])
    return [Tensor(first.dtype, shape, spread(first, shape))]


def _tile(call: Call) -> list[Tensor]:
    first, repeats = call.tensor(0), call.known(1, "repeats")
    if len(repeats) != len(first.shape):
        raise Problem(f"repeats {list(first.shape)} by {list(repeats)}")
    shape = checked(size * times for size, times in zip(first.shape, repeats, strict=True))
    values = None
    if first.values is not None and len(shape) == 1 and shape[0] <= KNOWN_VALUES:
        values = first.values * repeats[0]
    return [Tensor(first.dtype, shape, values)]


def _gather(call: Call) -> list[Tensor]:
    first, places = call.tensor(0), call.tensor(1)
    axis = axis_of(call.integer("axis", 0), len(first.shape))
    shape = checked((*first.shape[:axis], *places.shape, *first.shape[axis + 1 :]))
    values = None
    if first.values is not None and places.values is not None and len(first.shape) == 1:
        size = first.shape[0]
        if all(-size <= place < size for place in places.values):
            values = tuple(first.values[int(place) % size] for place in places.values)
    return [Tensor(first.dtype, shape, values)]


def _gather_each(call: Call) -> list[Tensor]:
    return [Tensor(call.tensor(0).dtype, call.tensor(1).shape)]


def _gather_nd(call: Call) -> list[Tensor]:
    first, places = call.tensor(0), call.tensor(1)
    batch = call.integer("batch_dims", 0)
    if not places.shape or not 0 <= batch < len(places.shape):
        raise Problem(f"gathers from {list(first.shape)} by {list(places.shape)}")
    depth = batch + places.shape[-1]
    if depth > len(first.shape):
        raise Problem(f"gathers {depth} axes deep from {list(first.shape)}")
    return [Tensor(first.dtype, checked((*places.shape[:-1], *first.shape[depth:])))]


def _pad(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    rank = len(first.shape)
    pads = call.given_integers("pads", 1) or ()
    axes = call.known(3, "axes") if call.optional(3) else tuple(range(rank))
    if len(pads) != 2 * len(axes):
        raise Problem(f"pads {list(first.shape)} by {list(pads)[:16]}")
    sizes = list(first.shape)
    for place, axis in enumerate(axes):
        sizes[axis_of(axis, rank)] += pads[place] + pads[place + len(axes)]
    return [Tensor(first.dtype, checked(sizes))]


def _depth_to_space(call: Call) -> list[Tensor]:
    first, block = call.tensor(0), call.integer("blocksize", 1)
    shape = first.shape
    if len(shape) != 4 or block < 1:
        raise Problem(f"rearranges {list(shape)} by blocks of {block}")
    if call.operator == "DepthToSpace":
        if shape[1] % (block * block):
            raise Problem(f"rearranges {shape[1]} channels by blocks of {block}")
        sizes = (shape[0], shape[1] // block**2, shape[2] * block, shape[3] * block)
    else:
        if shape[2] % block or shape[3] % block:
            raise Problem(f"rearranges {list(shape)} by blocks of {block}")
        sizes = (shape[0], shape[1] * block**2, shape[2] // block, shape[3] // block)
    return [Tensor(first.dtype, checked(sizes))]


def _one_hot(call: Call) -> list[Tensor]:
    first, depth, values = call.tensor(0), call.known(1, "depth"), call.tensor(2)
    if len(depth) != 1:
        raise Problem("has no single depth")
    axis = axis_of(call.integer("axis", -1), len(first.shape) + 1)
    return [Tensor(values.dtype, checked((*first.shape[:axis], *depth, *first.shape[axis:])))]


def _shape(call: Call) -> list[Tensor]:
    shape = call.tensor(0).shape
    end = call.attributes.get("end")
    sizes = shape[call.integer("start", 0) : end if isinstance(end, int) else None]
    return [Tensor(INT64, (len(sizes),), sizes)]


def _size(call: Call) -> list[Tensor]:
    return [Tensor(INT64, (), (call.tensor(0).elements,))]


add("Reshape", OpFamily.VIEW, _reshape, nothing)
add("Flatten", OpFamily.VIEW, _flatten, nothing)
add("Squeeze", OpFamily.VIEW, _squeeze, nothing)
add("Unsqueeze", OpFamily.VIEW, _unsqueeze, nothing)
add("Identity", OpFamily.VIEW, _identity, nothing)
add("Shape", OpFamily.SHAPE, _shape, nothing)
add("Size", OpFamily.SHAPE, _size, nothing)
add("Transpose", OpFamily.MOVEMENT, _transpose, nothing)
add("Slice", OpFamily.MOVEMENT, _slice, nothing)
add("Concat", OpFamily.MOVEMENT, _concat, nothing)
add("Split", OpFamily.MOVEMENT, _split, nothing)
add("Expand", OpFamily.MOVEMENT, _expand, nothing)
add("Tile", OpFamily.MOVEMENT, _tile, nothing)
add("Pad", OpFamily.MOVEMENT, _pad, nothing)
add("DepthToSpace SpaceToDepth", OpFamily.MOVEMENT, _depth_to_space, nothing)
add("Trilu ReverseSequence", OpFamily.MOVEMENT, like_first, nothing)
add("Gather", OpFamily.SELECTION, _gather, nothing)
add("GatherElements", OpFamily.SELECTION, _gather_each, nothing)
add("GatherND", OpFamily.SELECTION, _gather_nd, nothing)
add("Scatter ScatterElements ScatterND TensorScatter", OpFamily.SELECTION, like_first, nothing)
add("OneHot", OpFamily.SELECTION, _one_hot, nothing)
