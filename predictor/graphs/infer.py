"""Infer each node's shapes, operations, bytes and parameters from an ONNX model without weights.

This module runs in the unprivileged child, so it uses the standard library only. Nodes with equal
operator, attributes, shapes and types are one *kind*. Shape and cost rules run once per kind, so
repeated layers cost little. Nodes that depend on constants alone (shape arithmetic, transposed
weights) run when a model is loaded, not at each inference; they are left out and counted as
folded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.pilot.protobuf import Problem
from berth.predictor.graphs.kinds import KindEntry, describe
from berth.predictor.graphs.limits import LIMITS, FileLimits
from berth.predictor.graphs.onnx_file import OnnxNode, RawModel, subgraph
from berth.predictor.graphs.onnx_parts import attributes, printable, shown
from berth.predictor.graphs.operators import CATALOGUE, Call, OpFamily
from berth.predictor.graphs.parameters import Roles, counted, stored_behind
from berth.predictor.graphs.preparing import CONTROL_FLOW, bind, flattened, sorted_nodes
from berth.predictor.graphs.values import Shape, Tensor


@dataclass(slots=True)
class Inferred:
    """An inferred graph as lists; ``kinds[kind_of[n]]`` describes node n."""

    batch: int
    opset: int
    producer: str
    inputs: list[tuple[str, int, Shape]]
    """Name, ONNX type code and shape of each input; ``outputs`` likewise."""
    outputs: list[tuple[str, int, Shape]]
    kinds: list[KindEntry] = field(default_factory=list)
    kind_of: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    parameters: int = 0
    """Number of parameters as the model's framework counts them (see ``parameters.py``)."""
    stored: int = 0
    """Number of elements of the file's constants."""
    stored_bytes: int = 0
    folded: dict[str, int] = field(default_factory=dict)
    """Number of nodes that are computed when the model is loaded, by operator."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Number of nodes of each operator that the catalogue lacks."""
    assumed: int = 0
    """Number of outputs of unknown operators whose shape the file lacks.

    The shape of the operator's input is assumed for them.
    """
    digest: str = ""


def infer(
    model: RawModel,
    batch: int | None = None,
    sizes: Mapping[str, int] | None = None,
    limits: FileLimits = LIMITS,
) -> Inferred:
    """Return the model's nodes with shapes, operations and bytes at a batch size.

    ``sizes`` sets other open dimensions by name. Raises Problem with one sentence.
    """
    walk = Walk.of(model, batch, sizes, limits)
    walk.steps()
    return walk.result()


FOLDED, SAME = -1, -2
"""Values of ``_InferredNode.kind``: computed at loading; equal to the node's input."""


@dataclass(frozen=True, slots=True)
class _InferredNode:
    """The output tensors and the kind of node that the shape and cost rules infer for a node."""

    outputs: tuple[Tensor, ...]
    kind: int
    """Index of the node's kind in ``Inferred.kinds``, or FOLDED, or SAME."""
    once: tuple[tuple[int, int], ...] = ()
    """Inputs (position, elements) that count once per model; see ``parameters.counted``."""


class Walk:
    """Infers a graph node by node in topological order.

    ``env`` maps the name of each tensor seen so far to its type, shape and small values.
    """

    @classmethod
    def of(
        cls,
        model: RawModel,
        batch: int | None = None,
        sizes: Mapping[str, int] | None = None,
        limits: FileLimits = LIMITS,
    ) -> Walk:
        """Return a Walk over the model with the sizes of its inputs set. Raises Problem."""
        inputs, batch = bind(model.inputs, batch, sizes or {})
        nodes = flattened(model, limits)
        if not nodes:
            raise Problem("holds no nodes")
        walk = cls(model, nodes, inputs, batch)
        walk.limits, walk.left = limits, limits.nodes - len(nodes)
        return walk

    def __init__(
        self, model: RawModel, nodes: list[OnnxNode], inputs: dict[bytes, Tensor], batch: int
    ) -> None:
        self.model = model
        self.nodes = nodes
        self.env: dict[bytes, Tensor | None] = {b"": None, **model.constants, **inputs}
        self.maker: dict[bytes, int] = {}
        self.made: dict[object, _InferredNode] = {}
        self.kinds: dict[KindEntry, int] = {}
        self.hashes: list[bytes] = []
        self.limits, self.left, self.depth = LIMITS, LIMITS.nodes, 0
        named = [(printable(name), t.dtype, t.shape) for name, t in inputs.items()]
        self.found = Inferred(batch, model.opset, model.producer, named, [])
        self.found.stored = sum(t.stored or 0 for t in model.constants.values())
        self.found.stored_bytes = sum(t.size_bytes for t in model.constants.values())

    def steps(self) -> None:
        """Infer every node of the graph. Raises Problem that names the node."""
        self._order()
        self.roles = Roles(self.nodes)
        for place, node in enumerate(self.nodes):
            try:
                self._node(node)
            except Problem as problem:
                operator = f"{node.domain}:{node.operator}" if node.domain else node.operator
                raise Problem(
                    f"node {place} ({operator}) {problem.problem}", problem.hint
                ) from None

    def result(self) -> Inferred:
        """Return the inferred graph. Raises Problem where no node computes from the inputs."""
        inferred = self.found
        if not inferred.kind_of:
            raise Problem("computes nothing from its inputs")
        inferred.digest = hashlib.blake2b(b"".join(sorted(self.hashes)), digest_size=16).hexdigest()
        for name in self.model.outputs:
            tensor = self.env.get(name)
            if tensor is None:
                raise Problem(f"has the output {shown(name)}, which nothing makes")
            inferred.outputs.append((printable(name), tensor.dtype, tensor.shape))
        return inferred

    def _order(self) -> None:
        known = set(self.env)
        for node in self.nodes:
            if not known.issuperset(node.inputs):
                self.nodes = sorted_nodes(self.nodes, self.env)
                return
            known.update(node.outputs)

    def _node(self, node: OnnxNode) -> None:
        env = self.env
        try:
            inputs = tuple([env[name] for name in node.inputs])
        except KeyError as missing:
            raise Problem(f"reads {shown(missing.args[0])}, which nothing makes") from None
        if node.operator == "If" and inputs and inputs[0] is not None and inputs[0].values:
            self._branch(node, b"then_branch" if inputs[0].values[0] else b"else_branch")
            return
        hints = self.roles.hints(node)
        key = (node.operator, node.domain, node.attributes, inputs, len(node.outputs), hints)
        result = self.made.get(key)
        if result is None:
            result = self._make(node, inputs, hints)
            if node.operator in CATALOGUE:
                self.made[key] = result
        for name, tensor in zip(node.outputs, result.outputs, strict=False):
            env[name] = tensor
        if result.kind < 0:
            folded = self.found.folded
            folded[node.operator] = folded.get(node.operator, 0) + 1
            if result.kind == FOLDED:
                self.roles.folded(node)
            elif node.inputs[0] in self.maker:
                self.maker[node.outputs[0]] = self.maker[node.inputs[0]]
        else:
            self._record(node, result)

    def _branch(self, node: OnnxNode, name: bytes) -> None:
        """Replace an If node, whose condition is a known constant, by the nodes of its branch."""
        nodes, constants, outputs = subgraph(node.attributes, name)
        self.left -= len(nodes)
        self.depth += 1
        if self.left < 0 or self.depth > self.limits.depth:
            raise Problem("holds branches without end")
        self.env.update(constants)
        self.found.stored += sum(t.stored or 0 for t in constants.values())
        self.found.stored_bytes += sum(t.size_bytes for t in constants.values())
        for inner in nodes:
            self._node(inner)
        for outer, inner_name in zip(node.outputs, outputs, strict=False):
            if inner_name not in self.env:
                raise Problem(f"gives {shown(inner_name)}, which nothing makes")
            self.env[outer] = self.env[inner_name]
            if inner_name in self.maker:
                self.maker[outer] = self.maker[inner_name]
        self.depth -= 1
        self.found.folded["If"] = self.found.folded.get("If", 0) + 1

    def _record(self, node: OnnxNode, result: _InferredNode) -> None:
        inferred, maker, hashes = self.found, self.maker, self.hashes
        number = len(inferred.kind_of)
        kind = inferred.kinds[result.kind]
        inferred.kind_of.append(result.kind)
        parts, seen = [kind.digest], set()
        for name in node.inputs:
            source = maker.get(name, -1)
            if source < 0:
                parts.append(b"-")
                continue
            parts.append(hashes[source])
            if source not in seen:
                seen.add(source)
                inferred.sources.append(source)
                inferred.targets.append(number)
        hashes.append(hashlib.blake2b(b"".join(parts), digest_size=8).digest())
        for name in node.outputs:
            maker[name] = number
        inferred.parameters += kind.parameters
        for position, elements in result.once:
            inferred.parameters -= self.roles.again(node.inputs[position], elements)

    def _make(self, node: OnnxNode, inputs: tuple[Tensor | None, ...], hints: int) -> _InferredNode:
        name = f"{node.domain}:{node.operator}" if node.domain else node.operator
        if node.operator in CONTROL_FLOW:
            raise Problem(
                "is control flow, so what the model does is known only when it runs",
                "export it traced, with fixed shapes",
            )
        entry = CATALOGUE.get(name)
        call = Call(
            node.operator, attributes(node.attributes), inputs, len(node.outputs), self.model.opset
        )
        if entry is None:
            return self._unknown(name, node, call)
        outputs = entry.shapes(call)
        if len(outputs) < len([known for known in node.outputs if known]):
            raise Problem(f"has {len(node.outputs)} outputs where {len(outputs)} are known")
        # CastLike uses only the type of its second input, not its values.
        used = inputs[:1] if node.operator == "CastLike" else inputs
        known = [tensor for tensor in used if tensor is not None]
        if entry.family is OpFamily.SHAPE or (
            known and all(tensor.stored is not None for tensor in known)
        ):
            return _InferredNode(_constant(call, entry.family, outputs), FOLDED)
        if _does_nothing(node, call, outputs):
            return _InferredNode((call.tensor(0),), SAME)
        parameters, once = counted(entry.family, call, hints)
        kind = describe((name, entry.family), call, outputs, entry.cost(call, outputs), parameters)
        return _InferredNode(tuple(outputs), self._place(kind), once)

    def _unknown(self, name: str, node: OnnxNode, call: Call) -> _InferredNode:
        """Return an unknown operator's outputs with the file's shapes and 0 operations."""
        inferred = self.found
        inferred.unknown[name] = inferred.unknown.get(name, 0) + 1
        like = next((t for t in call.inputs if t is not None and t.stored is None), None)
        outputs = []
        for output in node.outputs:
            declared = self.model.declared(output, inferred.batch) if output else None
            if declared is None:
                inferred.assumed += 1
                if like is None:
                    raise Problem("is not known, and the file does not say what it gives")
                declared = Tensor(like.dtype, like.shape)
            outputs.append(declared)
        parameters, once = counted(OpFamily.UNKNOWN, call, 0)
        kind = describe((name, OpFamily.UNKNOWN), call, outputs, (0, 0), parameters)
        return _InferredNode(tuple(outputs), self._place(kind), once)

    def _place(self, kind: KindEntry) -> int:
        place = self.kinds.setdefault(kind, len(self.kinds))
        if place == len(self.found.kinds):
            self.found.kinds.append(kind)
        return place


def _does_nothing(node: OnnxNode, call: Call, outputs: list[Tensor]) -> bool:
    if len(set(node.outputs) - {b""}) != 1:
        return False
    if node.operator in ("Cast", "CastLike"):
        return outputs[0].dtype == call.tensor(0).dtype
    return node.operator in ("Identity", "Dropout")


def _constant(call: Call, family: OpFamily, outputs: list[Tensor]) -> tuple[Tensor, ...]:
    """Return the outputs marked as constants; outputs of a Constant node keep their ``stored``."""
    stored = stored_behind(call, family)
    return tuple(
        Tensor(t.dtype, t.shape, t.values, stored if t.stored is None else t.stored)
        for t in outputs
    )
