"""Read an ONNX file without its weights: nodes, shapes of constants, inputs and outputs.

This module uses the standard library only. Field numbers are those of onnx.proto. External data
files are never opened, so only the shape of a constant in such a file is known. Names of tensors
stay undecoded bytes, because they only serve as keys.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from berth.pilot import protobuf
from berth.pilot.protobuf import Problem
from berth.predictor.graphs import wire
from berth.predictor.graphs.limits import LIMITS, FileLimits
from berth.predictor.graphs.onnx_parts import integers, printable, read_tensor, shown, text
from berth.predictor.graphs.values import FLOAT, Tensor, checked

OLDEST_OPSET = 13

_TENSOR: wire.Schema = {}
_GRAPH: dict[int, wire.Schema] = {5: _TENSOR, 11: {}, 12: {}}
_ATTRIBUTE: wire.Schema = {5: _TENSOR, 6: _GRAPH}
_NODE: wire.Schema = {5: _ATTRIBUTE}
_GRAPH[1] = _NODE
_MODEL: wire.Schema = {7: _GRAPH, 25: {7: _NODE}}


class OnnxNode(NamedTuple):
    """A node as the ONNX file lists it: operator, names of tensors, encoded attributes."""

    operator: str
    domain: str
    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]
    attributes: tuple[bytes, ...]
    """Encoded AttributeProto messages."""


@dataclass(frozen=True, slots=True)
class Input:
    """A graph input as the file declares it."""

    name: bytes
    dtype: int
    shape: tuple[int | str, ...] | None
    """A size, a symbolic name, or "" (unnamed) per dimension; None if the file has no shape."""


@dataclass(slots=True)
class Function:
    """A FunctionProto: an operator that the model file defines by other nodes."""

    inputs: list[bytes] = field(default_factory=list)
    outputs: list[bytes] = field(default_factory=list)
    nodes: list[OnnxNode] = field(default_factory=list)
    defaults: list[bytes] = field(default_factory=list)
    """Encoded AttributeProto messages with default values."""


@dataclass(frozen=True, slots=True)
class RawModel:
    """The graph of an ONNX file before shapes are inferred."""

    producer: str
    opset: int
    """The operator set that the file declares, before it was converted."""
    nodes: list[OnnxNode]
    constants: dict[bytes, Tensor]
    inputs: list[Input]
    outputs: list[bytes]
    functions: dict[tuple[str, str], Function]
    notes: tuple[bytes, tuple[tuple[int, int], ...]] = (b"", ())
    """The file's bytes, and the (start, end) of its value_info entries; parsed when needed."""
    _declared: dict[bytes, tuple[int, int]] = field(default_factory=dict)

    def declared(self, name: bytes, batch: int) -> Tensor | None:
        """Return the type and shape that the file's value_info declares for a tensor.

        A symbolic first dimension becomes ``batch``. None where the shape is missing or open.
        """
        data, spans = self.notes
        if not self._declared:
            self._declared.update({_name(data, *span): span for span in spans})
        span = self._declared.get(name)
        note = _input(data, *span) if span else None
        if note is None or note.shape is None:
            return None
        first, *rest = note.shape or (1,)
        sizes = [batch if isinstance(first, str) else first, *rest]
        known = [size for size in sizes if isinstance(size, int)]
        if len(known) < len(sizes) or min(known) < 0:
            return None
        return Tensor(note.dtype, checked(known[: len(note.shape)]))


class OlderOpset(Problem):
    """The file is of an operator set before ``OLDEST_OPSET``, and there is no converter here."""


Converter: TypeAlias = Callable[[bytes], bytes]
"""Converts a model's bytes to ``OLDEST_OPSET`` (``older_opsets``)."""


def read(handle: int, limits: FileLimits = LIMITS, convert: Converter | None = None) -> RawModel:
    """Return the model in an open file descriptor.

    A model of an older operator set is converted by ``convert``. Raises Problem with one sentence;
    OlderOpset without ``convert``.
    """
    size = os.fstat(handle).st_size
    if size == 0:
        raise Problem("is empty")
    if size > limits.file_bytes:
        raise Problem(f"is larger than {limits.file_bytes >> 20} MiB")
    refuse_other_formats(os.pread(handle, 16, 0))
    if size <= limits.whole_bytes:
        data = os.pread(handle, size, 0)
    else:
        data = wire.skeleton(handle, size, _MODEL, limits)
    try:
        return _model(data, limits, convert)
    except (IndexError, struct.error):
        raise Problem("is truncated or not an ONNX model") from None


_OTHER = (
    (0, b"PK\x03\x04", "a zip archive (a PyTorch or Keras file?)"),
    (0, b"\x1f\x8b", "gzip-compressed"),
    (0, b"\xfd7zXZ\x00", "xz-compressed"),
    (0, b"BZh", "bzip2-compressed"),
    (0, b"\x28\xb5\x2f\xfd", "zstd-compressed"),
    (0, b"\x89HDF", "an HDF5 file (Keras?)"),
    (0, b"\x80\x02", "a Python pickle"),
    (0, b"\x80\x04", "a Python pickle"),
    (4, b"ORTM", "an ORT-format model"),
    (4, b"TFL3", "a TensorFlow Lite model"),
    (0, b"{", "JSON"),
    (0, b"\x7fELF", "a program"),
)


def refuse_other_formats(head: bytes) -> None:
    """Raise Problem, which names the format, where the first bytes show that it is not ONNX."""
    for at, magic, format_name in _OTHER:
        if head[at : at + len(magic)] == magic:
            raise Problem(f"is {format_name}, not an ONNX model", "export the model to ONNX")


def _model(data: bytes, limits: FileLimits, convert: Converter | None = None) -> RawModel:
    producer, opset, graph = b"", 0, None
    functions: dict[tuple[str, str], Function] = {}
    for number, start, end in protobuf.scan(data, 0, len(data)):
        if end < 0:
            continue
        if number == 2:
            producer = data[start:end]
        elif number == 7:
            graph = (start, end)
        elif number == 8:
            opset = max(opset, _opset(data, start, end))
        elif number == 25:
            key, function = _function(data, start, end)
            functions[key] = function
    if graph is None:
        raise Problem("holds no graph; it is not an ONNX model")
    if 0 < opset < OLDEST_OPSET and convert is not None:
        return replace(_model(convert(data), limits), opset=opset)
    if opset < OLDEST_OPSET:
        declared = f"opset {opset}" if opset else "no operator set"
        raise (OlderOpset if opset else Problem)(
            f"uses {declared}; {OLDEST_OPSET} and newer are read",
            "pip install onnx, with which Berth converts it; or export it again"
            if opset
            else "export it again",
        )
    spans = _by_number(data, graph)
    if len(spans[_NODES]) > limits.nodes:
        raise Problem(f"has more than {limits.nodes} nodes")
    constants = dict(read_tensor(data, *span) for span in spans[_CONSTANTS])
    constants |= dict(_sparse(data, *span) for span in spans[_SPARSE])
    inputs = [_input(data, *span) for span in spans[_INPUTS]]
    return RawModel(
        producer=printable(producer),
        opset=opset,
        nodes=[_node(data, *span) for span in spans[_NODES]],
        constants=constants,
        inputs=[declared for declared in inputs if declared.name not in constants],
        outputs=[_name(data, *span) for span in spans[_OUTPUTS]],
        functions=functions,
        notes=(data, (*spans[_OUTPUTS], *spans[_NOTES])),
    )


_NODES, _CONSTANTS, _INPUTS, _OUTPUTS, _NOTES, _SPARSE = 1, 5, 11, 12, 13, 15
_SUBGRAPH = 6


def _by_number(data: bytes, graph: tuple[int, int]) -> dict[int, list[tuple[int, int]]]:
    spans: dict[int, list[tuple[int, int]]] = {
        number: [] for number in (_NODES, _CONSTANTS, _INPUTS, _OUTPUTS, _NOTES, _SPARSE)
    }
    for number, start, end in protobuf.scan(data, *graph):
        if end >= 0 and number in spans:
            spans[number].append((start, end))
    return spans


def subgraph(
    encoded: Sequence[bytes], name: bytes
) -> tuple[list[OnnxNode], dict[bytes, Tensor], list[bytes]]:
    """Return the nodes, constants and output names of the graph in the attribute ``name``.

    ``encoded`` are a node's attributes. Raises Problem where the graph is absent or malformed.
    """
    try:
        for data in encoded:
            parts = {number: (a, b) for number, a, b in protobuf.scan(data, 0, len(data)) if b >= 0}
            at, end = parts.get(1, (0, 0))
            if data[at:end] != name or _SUBGRAPH not in parts:
                continue
            spans = _by_number(data, parts[_SUBGRAPH])
            return (
                [_node(data, *span) for span in spans[_NODES]],
                dict(read_tensor(data, *span) for span in spans[_CONSTANTS]),
                [_name(data, *span) for span in spans[_OUTPUTS]],
            )
    except (IndexError, struct.error):
        raise Problem("has a malformed graph inside") from None
    raise Problem(f"lacks its {name.decode()}")


def _opset(data: bytes, start: int, end: int) -> int:
    """Return the opset version of an OperatorSetIdProto; 0 for other domains than ONNX's own."""
    domain, version = b"", 0
    for number, a, b in protobuf.scan(data, start, end):
        if number == 1 and b >= 0:
            domain = data[a:b]
        elif number == 2 and b < 0:
            version = a
    return version if domain in (b"", b"ai.onnx") else 0


def _node(data: bytes, start: int, end: int) -> OnnxNode:
    parts: tuple[list[bytes], ...] = ([], [], [], [], [], [], [], [])
    for number, a, b in protobuf.scan(data, start, end):
        if number < 8 and b >= 0:
            parts[number].append(data[a:b])
    _, inputs, outputs, _, operator, attributes, _, domain = parts
    space = text(domain[-1]) if domain and domain[-1] != b"ai.onnx" else ""
    name = text(operator[-1]) if operator else ""
    return OnnxNode(name, space, tuple(inputs), tuple(outputs), tuple(attributes))


def _function(data: bytes, start: int, end: int) -> tuple[tuple[str, str], Function]:
    name = domain = b""
    function = Function()
    for number, a, b in protobuf.scan(data, start, end):
        if b < 0:
            continue
        if number == 1:
            name = data[a:b]
        elif number == 4:
            function.inputs.append(data[a:b])
        elif number == 5:
            function.outputs.append(data[a:b])
        elif number == 7:
            function.nodes.append(_node(data, a, b))
        elif number == 10:
            domain = data[a:b]
        elif number == 11:
            function.defaults.append(data[a:b])
    return (text(domain), text(name)), function


def _name(data: bytes, start: int, end: int) -> bytes:
    for number, a, b in protobuf.scan(data, start, end):
        if number == 1 and b >= 0:
            return data[a:b]
    return b""


def _input(data: bytes, start: int, end: int) -> Input:
    name, dtype, shape = b"", 0, None
    for number, a, b in protobuf.scan(data, start, end):
        if number == 1:
            name = data[a:b]
        elif number == 2:
            for kind, c, d in protobuf.scan(data, a, b):
                if kind != 1:
                    raise Problem(f"has the input {shown(name)}, which is not a tensor")
                dtype, shape = _tensor_type(data, c, d)
    return Input(name, dtype, shape)


def _tensor_type(data: bytes, start: int, end: int) -> tuple[int, tuple[int | str, ...] | None]:
    dtype, shape = FLOAT, None
    for number, a, b in protobuf.scan(data, start, end):
        if number == 1 and b < 0:
            dtype = a
        elif number == 2 and b >= 0:
            sizes: list[int | str] = []
            for _, c, d in protobuf.scan(data, a, b):
                size: int | str = ""
                for kind, e, f in protobuf.scan(data, c, d):
                    if kind == 1 and f < 0:
                        size = protobuf.signed(e)
                    elif kind == 2 and f >= 0:
                        size = printable(data[e:f])
                sizes.append(size)
            shape = tuple(sizes)
    return dtype, shape


def _sparse(data: bytes, start: int, end: int) -> tuple[bytes, Tensor]:
    name, dtype, dims, stored = b"", FLOAT, [], 0
    for number, a, b in protobuf.scan(data, start, end):
        if number == 1 and b >= 0:
            name, values = read_tensor(data, a, b)
            dtype, stored = values.dtype, values.elements
        elif number == 3:
            dims += integers(data, a, b)
    return name, Tensor(dtype, checked(dims, "a constant"), None, stored)
