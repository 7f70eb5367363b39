"""Read the graph of a Hugging Face model from its ``config.json``, without weights.

Encoders of the BERT kind are written by ``encoder``; others are built on torch's ``meta`` device
and exported to ONNX. Code that a configuration
points to is never run. ``families/language_model`` predicts language models from their
configuration without any framework.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.pilot.documents import MAX_DOCUMENT_BYTES
from berth.pilot.errors import DocumentError, UsageError
from berth.predictor.graphs.front_ends import torch_module
from berth.predictor.graphs.front_ends.encoder import encoder
from berth.predictor.graphs.front_ends.exported import failed, framework, read_exported
from berth.predictor.graphs.graph import ModelGraph

SEQUENCE = 128
"""Default number of tokens, where ``sizes`` has no ``sequence``."""
_EXPORT = (
    "export it to ONNX with `optimum-cli export onnx --model MODEL FOLDER`, then give "
    "FOLDER/model.onnx"
)
_PARTS = {"text_config": "texts", "vision_config": "pictures", "audio_config": "sounds"}
_LARGEST_SETTING = 2**27
_MOST_LAYERS = 1024


def graph_of(
    path: Path, *, batch: int | None = None, sizes: Mapping[str, int] | None = None
) -> ModelGraph:
    """Return the graph of the model that a ``config.json`` describes, at a batch size.

    ``sizes`` may set ``sequence`` (tokens) or ``image`` (pixels per side). Raises DocumentError
    for a configuration that cannot be read, built or exported; ToolMissing without transformers.
    """
    settings = read_config(path)
    asked = dict(sizes or {})
    written = encoder(path, settings, asked.get("sequence", SEQUENCE))
    if written is not None:
        asked.pop("sequence", None)
        _check_taken(asked)
        return read_exported(written, source=str(path), batch=batch or 1, sizes=None)
    _refuse_several_inputs(path, settings)
    torch, transformers = (
        framework(
            name, what="this configuration", extra=f"'berth[frameworks]'; or without it: {_EXPORT}"
        )
        for name in ("torch", "transformers")
    )
    module = _build(path, settings, transformers, torch)
    inputs = _inputs(path, module, torch, batch or 1, asked)
    try:
        data = torch_module.to_onnx(module, inputs)
    except DocumentError as error:
        raise DocumentError(path, error.message.partition(": ")[2], hint=_EXPORT) from None
    return read_exported(data, source=str(path), batch=batch or 1, sizes=None)


def _refuse_several_inputs(path: Path, settings: Mapping[str, Any]) -> None:
    """Raise DocumentError for a model that reads texts and pictures (or sounds) at once: which
    shapes they have, the configuration does not say."""
    parts = [words for key, words in _PARTS.items() if isinstance(settings.get(key), dict)]
    if len(parts) > 1:
        raise DocumentError(
            path, f"is of an encoder, {settings['model_type']!r}, which reads {' and '.join(parts)}"
            " at once; it serves no tokens", hint=_EXPORT,
        )  # fmt: skip


def _check_taken(sizes: Mapping[str, int]) -> None:
    """Raise UsageError for a size that no dimension of the model takes."""
    if sizes:
        raise UsageError(f"the model has no dimension {next(iter(sizes))!r} to give a size")


def read_config(path: Path) -> dict[str, Any]:
    """Return the settings in a Hugging Face ``config.json``.

    Raises DocumentError for a file that is no such configuration, or for a number out of bounds.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_DOCUMENT_BYTES + 1)
        settings = json.loads(raw)
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise DocumentError(path, "is not JSON") from None
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise DocumentError(path, f"is larger than {MAX_DOCUMENT_BYTES} bytes")
    if not isinstance(settings, dict) or not isinstance(settings.get("model_type"), str):
        raise DocumentError(path, "names no model_type; it is no Hugging Face configuration")
    for key, value in settings.items():
        most = _MOST_LAYERS if "layers" in key or key == "depths" else _LARGEST_SETTING
        values = value if isinstance(value, list) else [value]
        if any(isinstance(v, int | float) and not -most <= v <= most for v in values):
            raise DocumentError(path, f"is beyond {most}", key=key)
    return settings


def _build(path: Path, settings: dict[str, Any], transformers: Any, torch: Any) -> Any:
    options = {key: value for key, value in settings.items() if key != "auto_map"}
    kind = options.pop("model_type")
    if kind not in transformers.CONFIG_MAPPING:
        raise DocumentError(
            path,
            f"names the model type {kind!r}, which transformers does not know",
            hint=_EXPORT,
        )
    try:
        config = transformers.AutoConfig.for_model(kind, **options)
        config.use_cache = False
        named = next(iter(settings.get("architectures") or ()), "")
        factory = getattr(transformers, named, None) if str(named).isidentifier() else None
        with torch.device("meta"):
            if isinstance(factory, type) and issubclass(factory, transformers.PreTrainedModel):
                config._attn_implementation = "eager"
                return factory(config)
            return transformers.AutoModel.from_config(config, attn_implementation="eager")
    except Exception as error:
        # Each model class raises its own exceptions for a wrong configuration.
        raise failed(str(path), "transformers", error) from None


def _inputs(
    path: Path, module: Any, torch: Any, batch: int, sizes: dict[str, int]
) -> dict[str, Any]:
    config = module.config
    name = getattr(module, "main_input_name", "input_ids")
    if name == "input_ids":
        tokens = torch.zeros(
            (batch, sizes.pop("sequence", SEQUENCE)), dtype=torch.long, device="meta"
        )
        inputs = {"input_ids": tokens}
        if getattr(config, "is_encoder_decoder", False):
            inputs["decoder_input_ids"] = tokens
    elif name == "pixel_values":
        image_size = getattr(config, "image_size", 224)
        height, width = (
            image_size if isinstance(image_size, list | tuple) else (image_size, image_size)
        )
        height = width = sizes.pop("image", 0) or height if height == width else height
        shape = (batch, getattr(config, "num_channels", 3), height, width)
        inputs = {"pixel_values": torch.zeros(shape, device="meta")}
    else:
        raise DocumentError(path, f"is of a model that takes {name}", hint=_EXPORT)
    _check_taken(sizes)
    return inputs
