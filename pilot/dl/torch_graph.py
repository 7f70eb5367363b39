"""Convert an ONNX graph to a PyTorch module, node by node, for inference and training.

Weights that the file leaves out are random. Floating-point constants with more than one element
become trainable parameters. Nodes that depend on constants alone run once, when the model is
loaded. Reading the file needs the Python package ``onnx``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from berth.pilot.dl import torch_shapes
from berth.pilot.dl.onnx_engine import Refused, bound
from berth.pilot.dl.torch_operators import OPERATORS, Node
from berth.pilot.dl.weights import Maker, check_cap, external_tensors

_ = torch_shapes  # importing the module registers its operators


@dataclass(frozen=True, slots=True)
class Loaded:
    """A PyTorch module made from an ONNX file, with inputs of matching shapes."""

    module: Any
    inputs: tuple[Any, ...]
    random_weights: bool


def load(torch: Any, path: Path, batch: int, sizes: Mapping[str, int], cap_bytes: int) -> Loaded:
    """Return the model of an ONNX file as a PyTorch module with inputs at a batch size.

    Raises Refused for unknown operators or open dimensions, TooLarge for weights over
    ``cap_bytes``.
    """
    try:
        import onnx  # noqa: PLC0415 - an extra
        from onnx import helper, numpy_helper  # noqa: PLC0415
    except ImportError:
        raise Refused("running an ONNX file by PyTorch needs `onnx` (the extra `train`)") from None
    stubs = {stub.name: stub for stub in external_tensors(path)}
    check_cap(list(stubs.values()), cap_bytes)
    graph = onnx.load(path, load_external_data=False).graph
    maker = Maker()
    constants = {
        tensor.name: torch.from_numpy(
            maker.weight(stubs[tensor.name])
            if tensor.name in stubs
            else numpy_helper.to_array(tensor).copy()
        )
        for tensor in graph.initializer
    }
    nodes = []
    for raw in graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in raw.attribute}
        if raw.op_type == "Constant" and "value" in attributes:
            value = numpy_helper.to_array(attributes["value"]).copy()
            constants[raw.output[0]] = torch.from_numpy(value)
            continue
        if raw.domain not in ("", "ai.onnx") or raw.op_type not in OPERATORS:
            raise Refused(f"operator {raw.op_type} cannot be run by PyTorch here")
        nodes.append(Node(raw.op_type, tuple(raw.input), tuple(raw.output), attributes))
    open_ports = [port for port in graph.input if port.name not in constants]
    inputs = tuple(
        torch.from_numpy(maker.input(*_described(port, helper, batch, sizes)))
        for port in open_ports
    )
    outputs = [port.name for port in graph.output]
    module = graph_module(torch, nodes, constants, [port.name for port in open_ports], outputs)
    return Loaded(module, inputs, bool(stubs))


def _described(
    port: Any, helper: Any, batch: int, sizes: Mapping[str, int]
) -> tuple[str, list[int]]:
    kind = port.type.tensor_type
    shape = [
        d.dim_param or (d.dim_value if d.HasField("dim_value") else None) for d in kind.shape.dim
    ]
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type).name
    return dtype, bound(port.name, shape, batch, dict(sizes))


def graph_module(
    torch: Any, nodes: list[Node], constants: dict[str, Any], inputs: list[str], outputs: list[str]
) -> Any:
    """Return a ``torch.nn.Module`` that runs the nodes in order and frees each tensor after use."""
    known = dict(constants)
    running = []
    for node in nodes:
        if all(name in known for name in node.inputs if name):
            with torch.no_grad():
                _run(torch, node, known)
        else:
            running.append(node)
    needed = {name for node in running for name in node.inputs} | set(outputs)
    last = {name: place for place, node in enumerate(running) for name in node.inputs}
    frees = [
        [name for name in set(node.inputs) if last[name] == place and name not in outputs]
        for place, node in enumerate(running)
    ]

    # Axes, shapes and single numbers stay in host memory, so that reading them needs no GPU sync.
    on_host = {name for node in running if node.operator == "Resize" for name in node.inputs[1:]}
    on_host |= {
        name for name, value in known.items() if not value.is_floating_point() or value.numel() == 1
    }

    class GraphModule(torch.nn.Module):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.places: dict[str, str] = {}
            self.fixed: dict[str, Any] = {}
            for number, (name, value) in enumerate(known.items()):
                if name in needed and name not in on_host:
                    self.places[name] = f"p{number}"
                    self.register_parameter(f"p{number}", torch.nn.Parameter(value))
                elif name in needed:
                    self.fixed[name] = value

        def forward(self, *arguments: Any) -> Any:
            values = dict(self.fixed)
            values.update((name, getattr(self, place)) for name, place in self.places.items())
            values.update(zip(inputs, arguments, strict=True))
            for node, free in zip(running, frees, strict=True):
                _run(torch, node, values)
                for name in free:
                    values.pop(name, None)
            results = tuple(values[name] for name in outputs)
            return results[0] if len(results) == 1 else results

    return GraphModule()


def _run(torch: Any, node: Node, values: dict[str, Any]) -> None:
    arguments = [values[name] if name else None for name in node.inputs]
    results = OPERATORS[node.operator](torch, node, *arguments)
    values.update(
        zip(node.outputs, results if isinstance(results, tuple) else (results,), strict=False)
    )
