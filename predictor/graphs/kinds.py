"""Kinds of nodes: the operator, attributes, shapes, operations and bytes that equal nodes share.

This module uses the standard library only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from berth.pilot.protobuf import Problem
from berth.predictor.graphs.limits import LARGEST_COUNT
from berth.predictor.graphs.operators import Call, OpFamily
from berth.predictor.graphs.values import FLOAT, Shape, Tensor

AXES = 6
"""Number of dimensions stored per shape (6, as in TraPPM).

The leading dimensions of a shape of higher rank are multiplied together.
"""
ATTRIBUTES = (
    "kernel_0", "kernel_1", "kernel_2", "stride_0", "stride_1", "stride_2", "dilation", "padding",
    "groups", "heads",
)  # fmt: skip
"""Attributes stored per node, 0 where one does not apply; kernel sizes are right-aligned."""
COLUMNS = (
    "family", "dtype", "inputs", "input_rank", "output_rank",
    *(f"input_{n}" for n in range(AXES)),
    *(f"output_{n}" for n in range(AXES)),
    *ATTRIBUTES,
    "macs", "flops", "parameters", "weight_bytes", "input_bytes", "output_bytes", "moved_bytes",
)  # fmt: skip
FAMILIES = tuple(OpFamily)


@dataclass(frozen=True, slots=True)
class KindEntry:
    """A row of the table of kinds: the operator's name and one number per column of ``COLUMNS``."""

    operator: str
    row: tuple[int, ...]
    digest: bytes
    """Digest of operator and row."""
    family: OpFamily
    parameters: int


def folded_to(shape: Shape) -> tuple[int, ...]:
    """Return a shape as exactly ``AXES`` sizes, padded with 0 at the end.

    Leading dimensions of a shape of higher rank are multiplied together.
    """
    if len(shape) > AXES:
        first, *rest = shape[: len(shape) - AXES + 1]
        for size in rest:
            first *= size
        shape = (first, *shape[len(shape) - AXES + 1 :])
    return shape + (0,) * (AXES - len(shape))


def describe(
    operator: tuple[str, OpFamily],
    call: Call,
    outputs: Sequence[Tensor],
    work: tuple[int, int],
    parameters: int,
) -> KindEntry:
    """Return the row of the table of kinds for an operator call.

    ``work`` is (MACs, flops other than the MACs'). Raises Problem for absurdly large counts.
    """
    name, family = operator
    activations = [t for t in call.inputs if t is not None and t.stored is None]
    constants = [t for t in call.inputs if t is not None and t.stored is not None]
    main = (activations or constants or [Tensor(FLOAT, ())])[0]
    out = outputs[0] if outputs else Tensor(FLOAT, ())
    read = sum(t.size_bytes for t in activations)
    weights = sum(t.size_bytes for t in constants)
    written = sum(t.size_bytes for t in outputs)
    macs, others = work
    numbers = (
        macs, 2 * macs + others, parameters, weights, read, written,
        _moved(name, family, read, weights, written),
    )  # fmt: skip
    row = (
        FAMILIES.index(family), out.dtype, len(activations), len(main.shape), len(out.shape),
        *folded_to(main.shape), *folded_to(out.shape), *_slots(call), *numbers,
    )  # fmt: skip
    if max(row) > LARGEST_COUNT:
        raise Problem(f"asks for more than {LARGEST_COUNT:.1e} operations, bytes or elements")
    digest = hashlib.blake2b(repr((name, row)).encode(), digest_size=8).digest()
    return KindEntry(name, row, digest, family, parameters)


def _moved(name: str, family: OpFamily, read: int, weights: int, written: int) -> int:
    """Return the bytes that an operator reads and writes.

    Views move none; selecting operators (Gather, Slice) read as many bytes as they write.
    """
    if family is OpFamily.VIEW:
        return 0
    if family is OpFamily.SELECTION or name in ("Slice", "Expand", "Tile"):
        return 2 * written
    return read + weights + written


def _slots(call: Call) -> tuple[int, ...]:
    kernel = call.integers("kernel_shape") or ()
    strides = call.integers("strides") or ()
    if not kernel and call.operator in ("Conv", "ConvTranspose"):
        kernel = call.tensor(1).shape[2:]
    dilations = call.integers("dilations") or (1,) * bool(kernel)
    heads = call.integer("num_heads", call.integer("q_num_heads", 0))
    slots = (
        *_three(kernel), *_three(strides or (1,) * len(kernel)), max(dilations, default=0),
        sum(call.integers("pads") or ()), call.integer("group", int(bool(kernel))), heads,
    )  # fmt: skip
    return tuple(min(max(size, -LARGEST_COUNT), LARGEST_COUNT) for size in slots)


def _three(sizes: Sequence[int]) -> tuple[int, int, int]:
    last = tuple(sizes[-3:])
    first, second, third = (0,) * (3 - len(last)) + last
    return first, second, third
