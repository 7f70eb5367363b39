"""PyTorch functions for ONNX operators that move, select, pad, reshape and resize."""

from __future__ import annotations

from typing import Any

from berth.pilot.dl.onnx_engine import Refused
from berth.pilot.dl.torch_operators import Node, on, rule, sided


@rule("CumSum")
def _cumsum(t: Any, n: Node, x: Any, axis: Any) -> Any:
    if n.get("exclusive", 0) or n.get("reverse", 0):
        raise Refused("an exclusive or reversed cumulative sum")
    return t.cumsum(x, int(axis))


@rule("Reshape")
def _reshape(t: Any, n: Node, x: Any, shape: Any) -> Any:
    wanted = shape.tolist()
    if not n.get("allowzero", 0):
        wanted = [x.shape[at] if size == 0 else size for at, size in enumerate(wanted)]
    return x.reshape(wanted)


@rule("Flatten")
def _flatten(t: Any, n: Node, x: Any) -> Any:
    axis = n.get("axis", 1)
    rows = 1
    for size in x.shape[:axis]:
        rows *= size
    return x.reshape(rows, -1)


@rule("Squeeze")
def _squeeze(t: Any, n: Node, x: Any, axes: Any = None) -> Any:
    return x.squeeze() if axes is None else x.squeeze(tuple(axes.tolist()))


@rule("Unsqueeze")
def _unsqueeze(t: Any, n: Node, x: Any, axes: Any) -> Any:
    listed = axes.tolist()
    rank = x.dim() + len(listed)
    for axis in sorted(axis % rank for axis in listed):
        x = x.unsqueeze(axis)
    return x


@rule("Transpose")
def _transpose(t: Any, n: Node, x: Any) -> Any:
    return x.permute(n.get("perm", list(reversed(range(x.dim())))))


@rule("Concat")
def _concat(t: Any, n: Node, *parts: Any) -> Any:
    return t.cat(parts, n.get("axis", 0))


@rule("Split")
def _split(t: Any, n: Node, x: Any, sizes: Any = None) -> Any:
    axis = n.get("axis", 0)
    if sizes is not None:
        return t.split(x, sizes.tolist(), axis)
    parts = len(n.outputs)
    return t.split(x, -(-x.shape[axis] // parts), axis)


@rule("Slice")
def _slice(t: Any, n: Node, x: Any, starts: Any, ends: Any, *rest: Any) -> Any:
    axes, steps = (*rest, None, None)[:2]
    along = list(range(len(starts))) if axes is None else axes.tolist()
    by = [1] * len(along) if steps is None else steps.tolist()
    for axis, start, end, step in zip(along, starts.tolist(), ends.tolist(), by, strict=True):
        if step < 0:
            raise Refused("a slice that runs backwards")
        index = [slice(None)] * x.dim()
        index[axis] = slice(start, end, step)
        x = x[tuple(index)]
    return x


@rule("Gather")
def _gather(t: Any, n: Node, x: Any, index: Any) -> Any:
    axis = n.get("axis", 0) % x.dim()
    selected = x.index_select(axis, on(index, x).reshape(-1) % x.shape[axis])
    return selected.reshape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


@rule("GatherND")
def _gather_nd(t: Any, n: Node, x: Any, index: Any) -> Any:
    if n.get("batch_dims", 0):
        raise Refused("GatherND over a batch")
    return x[tuple(on(index, x).unbind(-1))]


@rule("Expand")
def _expand(t: Any, n: Node, x: Any, shape: Any) -> Any:
    return x.expand(t.broadcast_shapes(tuple(x.shape), tuple(shape.tolist())))


@rule("Tile")
def _tile(t: Any, n: Node, x: Any, times: Any) -> Any:
    return x.repeat(times.tolist())


@rule("Shape")
def _shape(t: Any, n: Node, x: Any) -> Any:
    return t.tensor(list(x.shape)[n.get("start", 0) : n.get("end", None)], dtype=t.int64)


@rule("ConstantOfShape")
def _constant_of_shape(t: Any, n: Node, shape: Any) -> Any:
    value = n.get("value", None)
    fill = value.float_data[0] if value is not None and value.float_data else 0.0
    return t.full(shape.tolist(), fill)


@rule("Range")
def _range(t: Any, n: Node, start: Any, limit: Any, step: Any) -> Any:
    return t.arange(start.item(), limit.item(), step.item(), dtype=start.dtype)


@rule("Pad")
def _pad(t: Any, n: Node, x: Any, pads: Any, value: Any = None, axes: Any = None) -> Any:
    if axes is not None:
        raise Refused("padding of chosen axes")
    mode = {"edge": "replicate"}.get(n.get("mode", "constant"), n.get("mode", "constant"))
    sides = sided(pads.tolist(), x.dim())
    if mode != "constant":
        sides = sides[: 2 * (x.dim() - 2)]
        return t.nn.functional.pad(x, sides, mode=mode)
    return t.nn.functional.pad(x, sides, value=0.0 if value is None else value.item())


@rule("DepthToSpace")
def _depth_to_space(t: Any, n: Node, x: Any) -> Any:
    if n.get("mode", "DCR") == "CRD":
        return t.nn.functional.pixel_shuffle(x, n.get("blocksize", 1))
    size = n.get("blocksize", 1)
    b, c, h, w = x.shape
    x = x.reshape(b, size, size, c // size**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(b, c // size**2, h * size, w * size)


@rule("Col2Im")
def _col2im(t: Any, n: Node, x: Any, size: Any, block: Any) -> Any:
    pads = n.get("pads", [0, 0, 0, 0])
    return t.nn.functional.fold(
        x, size.tolist(), block.tolist(), n.get("dilations", [1, 1]), pads[:2],
        n.get("strides", [1, 1]),
    )  # fmt: skip


@rule("Resize")
def _resize(t: Any, n: Node, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    spatial = x.dim() - 2
    target = sizes.tolist()[-spatial:] if sizes is not None and sizes.numel() else None
    if target is None:
        factors = scales.tolist()[-spatial:]
        target = [int(size * f) for size, f in zip(x.shape[2:], factors, strict=True)]
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(n.get("mode", "nearest"), "nearest")
    aligned = n.get("coordinate_transformation_mode", "half_pixel") == "align_corners"
    if mode == "nearest":
        return t.nn.functional.interpolate(x, target, mode=mode)
    return t.nn.functional.interpolate(x, target, mode=mode, align_corners=aligned)
