"""Read the graph of a PyTorch module, exported by torch.export and torch.onnx.

No weights are written. The module may be on the ``meta`` device. With real weights, torch's ONNX
optimiser folds batch normalisations into convolutions, as in files that users export; on ``meta``
it is not run.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from berth.pilot.errors import UsageError
from berth.predictor.graphs.front_ends.exported import failed, framework, read_exported
from berth.predictor.graphs.graph import ModelGraph

_KEPT_BYTES = 8192
"""Constants up to this size in bytes (shapes, axes, scales) are exported with their values."""


def graph_of(
    module: Any,
    *,
    batch: int | None = None,
    sizes: Mapping[str, int] | None = None,
    inputs: Any = None,
) -> ModelGraph:
    """Return the graph of a ``torch.nn.Module`` for example ``inputs`` (tensor, tuple or mapping).

    ``batch`` replaces the first dimension of the inputs. Raises UsageError without inputs,
    DocumentError where torch cannot export the module, ToolMissing without torch or onnxscript.
    """
    name = type(module).__name__
    return read_exported(
        to_onnx(module, inputs, batch=batch), source=name, batch=batch, sizes=sizes
    )


def to_onnx(module: Any, inputs: Any, *, batch: int | None = None) -> bytes:
    """Return the module as the bytes of an ONNX file without weights; see ``graph_of``."""
    torch = framework("torch", what="reading PyTorch modules", extra="'berth[deep]'")
    framework("onnxscript", what="exporting PyTorch modules", extra="'berth[deep]'")
    name = type(module).__name__
    if inputs is None:
        raise UsageError(
            f"{name} needs example inputs to be traced", hint="give inputs=(tensor, ...)"
        )
    args, kwargs = _arguments(torch, inputs, batch)
    meta = any(p.device.type == "meta" for p in module.parameters())
    training = module.training
    module.eval()
    try:
        with _quiet(), torch.no_grad():
            exported = torch.export.export(module, args, kwargs)
            program = torch.onnx.export(exported, dynamo=True, optimize=not meta, verbose=False)
    except Exception as error:
        # The exporters raise many exception types; each means that the export failed.
        raise failed(name, "torch.onnx", error) from None
    finally:
        module.train(training)
    return without_weights(program.model)


def _arguments(
    torch: Any, inputs: Any, batch: int | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the example inputs at batch size ``batch``, as positional and keyword arguments."""
    named = dict(inputs) if isinstance(inputs, Mapping) else {}
    plain = () if named else (tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,))
    tensors = [x for x in (*plain, *named.values()) if isinstance(x, torch.Tensor) and x.dim()]
    if batch is None or not tensors:
        return plain, named
    old = tensors[0].shape[0]

    def sized(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dim() and value.shape[0] == old:
            return value.new_zeros((batch, *value.shape[1:]))
        return value

    return tuple(map(sized, plain)), {key: sized(value) for key, value in named.items()}


def without_weights(model: Any) -> bytes:
    """Return an ``onnx_ir`` model as the bytes of an ONNX file without its large constants."""
    ir = framework("onnx_ir", what="exporting PyTorch modules", extra="'berth[deep]'")
    for value in model.graph.initializers.values():
        held = value.const_value
        unreal = getattr(getattr(getattr(held, "raw", None), "device", None), "type", "") == "meta"
        if held is not None and (unreal or held.nbytes > _KEPT_BYTES):
            value.const_value = ir.ExternalTensor(
                "left-out", 0, int(held.nbytes), held.dtype, shape=held.shape, name=value.name
            )
    for node in model.graph.all_nodes():
        node.metadata_props.clear()
        node.doc_string = None
    data: bytes = ir.to_proto(model).SerializeToString()
    return data


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the exporters' standard output, standard error, warnings and log messages."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logger.setLevel(level)
