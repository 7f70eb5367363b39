"""Read the files of a model's folder that say what the model is: ``config.json`` and, where NVIDIA
quantised it, ``hf_quant_config.json`` beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.pilot.documents import MAX_DEPTH, MAX_DOCUMENT_BYTES, read_start
from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model.refusals import other_file

QUANTISATION_FILE = "hf_quant_config.json"
_MOST_KEYS = 10_000


def read_model_config(path: Path) -> dict[str, Any]:
    """Return the object in a ``config.json``, with the quantisation that a file beside it adds.

    ``Infinity`` and ``NaN``, which transformers writes, become texts. Raises DocumentError for a
    file that is too large, nested too deeply or no JSON object, and for two files that contradict
    each other.
    """
    raw = read_object(path)
    beside = path.with_name(QUANTISATION_FILE)
    if path.name != QUANTISATION_FILE and beside.is_file():
        return with_quantisation(raw, read_object(beside), beside)
    return raw


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a model's folder. Raises DocumentError."""
    return object_in(read_start(path), path)


def object_in(text: bytes, path: Path | str) -> dict[str, Any]:
    if text.startswith(b"GGUF"):
        raise DocumentError(path, "is a GGUF file, not a configuration", hint=GGUF_HINT)
    if len(text) > MAX_DOCUMENT_BYTES:
        raise DocumentError(
            path,
            f"is larger than {MAX_DOCUMENT_BYTES} bytes; a model's config.json has some kilobytes",
            hint="give the config.json, not a file of weights or a tokenizer",
        )
    try:
        raw = json.loads(
            text, parse_constant=str, object_pairs_hook=lambda pairs: _object(pairs, path)
        )
    except UnicodeDecodeError as error:
        raise DocumentError(path, f"is not UTF-8 text (byte {error.start})") from None
    except RecursionError:
        raise DocumentError(path, f"is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise DocumentError(path, f"is not JSON: {error}"[:200]) from None
    if not isinstance(raw, dict):
        raise DocumentError(path, "holds no JSON object where a configuration is needed")
    if _depth(raw) > MAX_DEPTH:
        raise DocumentError(path, f"is nested deeper than {MAX_DEPTH} levels")
    if len(raw) > _MOST_KEYS:
        raise DocumentError(path, f"holds more than {_MOST_KEYS} keys")
    return _finite(raw)  # type: ignore[no-any-return]


def _object(pairs: list[tuple[str, Any]], path: Path | str) -> dict[str, Any]:
    """Return the object of a JSON text. Raises DocumentError for a key with two values."""
    values = dict(pairs)
    for key, value in pairs if len(values) < len(pairs) else ():
        if values[key] != value:
            raise DocumentError(path, "is there twice, with different values", key=key[:60])
    return values


GGUF_HINT = (
    "give the config.json of the model that it was made from, with the file's bits: "
    "--quantise weights=int4 --framework llama.cpp"
)


def _depth(value: Any) -> int:
    deepest, stack = 0, [(value, 1)]
    while stack:
        inner, depth = stack.pop()
        deepest = max(deepest, depth)
        if depth > MAX_DEPTH:
            break
        children = inner.values() if isinstance(inner, dict) else inner
        stack += [(child, depth + 1) for child in children if isinstance(child, dict | list)]
    return deepest


def _finite(value: Any) -> Any:
    """Return a JSON value with numbers beyond those of a float (1e999) as texts, too."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not -1e308 < value < 1e308:
        return "Infinity"
    return value


def with_quantisation(
    raw: dict[str, Any], beside: Mapping[str, Any], source: Path
) -> dict[str, Any]:
    inner = beside.get("quantization")
    if not isinstance(inner, dict):
        raise DocumentError(source, "is missing", key="quantization")
    own = raw.get("quantization_config")
    if isinstance(own, dict) and own:
        named = own.get("quant_algo") or own.get("quant_method")
        if _plain(named) not in {"modelopt", _plain(inner.get("quant_algo"))} and (
            "quant_algo" in own or _plain(own.get("quant_method")) != "compressed-tensors"
        ):
            raise DocumentError(
                source,
                f"says {str(inner.get('quant_algo'))[:40]} and config.json beside it "
                f"{str(named)[:40]}",
                key="quantization.quant_algo",
                hint="remove the file that is not of these weights",
            )
        return raw
    return {**raw, "quantization_config": {"quant_method": "modelopt", **inner}}


def _plain(name: Any) -> str:
    return str(name or "").lower().removeprefix("modelopt_")


def refuse_folder(folder: Path) -> None:
    """Raise DocumentError for a model's folder without ``config.json``, naming what it has."""
    names = sorted(entry.name for entry in folder.iterdir())[:1000]
    for name in names:
        path = folder / name
        if name.lower().endswith(".gguf"):
            raise DocumentError(path, "is a GGUF file, not a configuration", hint=GGUF_HINT)
        if name in _TELLING or name.endswith(".index.json"):
            problem = other_file(read_object(path))
            if problem is not None:
                raise DocumentError(path, problem[0], hint=problem[1])
    raise DocumentError(
        folder, "is a folder without config.json", hint="give a model's config.json or its folder"
    )


_TELLING = ("adapter_config.json", "model_index.json", "params.json", "hf_quant_config.json")
