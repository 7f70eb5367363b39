"""Local Hugging Face checkpoints: a folder, never a download, never code or pickles from it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from berth.pilot.errors import DocumentError, ToolMissing

CONFIG, TOKENIZER, TOKENIZER_CONFIG = "config.json", "tokenizer.json", "tokenizer_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")
_MAX_HEADER_BYTES = 100 * 2**20


def require_language(needed_for: str) -> None:
    """Raises ToolMissing where the extra ``language`` is not installed."""
    for module in ("transformers", "peft", "safetensors", "tokenizers"):
        if importlib.util.find_spec(module) is None:
            raise ToolMissing(module, needed_for=needed_for, hint="pip install 'berth[language]'")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder that was checked."""

    folder: Path
    digest: str
    """Of its configuration, tokenizer and the weights' names, shapes and sizes (not each weight:
    these files have tens of gigabytes)."""


def checkpoint(folder: Path) -> Checkpoint:
    """Check a folder. Raises DocumentError: absent, no weights as safetensors, code of its own."""
    if not folder.is_dir():
        raise DocumentError(
            folder,
            "is not a folder",
            hint="name a folder with a Hugging Face checkpoint; nothing is downloaded",
        )
    digest = hashlib.sha256()
    for name, needed in ((CONFIG, True), (TOKENIZER, True), (TOKENIZER_CONFIG, False)):
        path = folder / name
        if not path.is_file():
            if needed:
                raise DocumentError(folder, f"is not a Hugging Face checkpoint: it has no {name}")
            continue
        raw = path.read_bytes()
        if "auto_map" in _object(path, raw):
            raise DocumentError(path, "asks for code from its folder, which Berth never runs")
        digest.update(raw)
    for path in _weights(folder):
        digest.update(_header(path))
    return Checkpoint(folder.resolve(), digest.hexdigest())


def _weights(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        named = _object(folder / INDEX, (folder / INDEX).read_bytes()).get("weight_map")
        if not isinstance(named, dict) or not named:
            raise DocumentError(folder / INDEX, "names no weights", key="weight_map")
        names = sorted({str(name) for name in named.values()})
        if odd := [n for n in names if Path(n).name != n or not n.endswith(".safetensors")]:
            raise DocumentError(folder / INDEX, f"names {odd[0]!r}", key="weight_map")
        if absent := [name for name in names if not (folder / name).is_file()]:
            raise DocumentError(folder, f"lacks {absent[0]}, which its index names")
        return [folder / name for name in names]
    pickled = sorted(found.name for kind in _PICKLED for found in folder.glob(kind))
    if pickled:
        raise DocumentError(
            folder,
            f"has its weights as {pickled[0]}, which can run code when it is read",
            hint=f"convert it to {WEIGHTS} where you trust it",
        )
    raise DocumentError(folder, f"has no weights: neither {WEIGHTS} nor {INDEX}")


def _object(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DocumentError(path, "is not a JSON object")
    return found


def _header(path: Path) -> bytes:
    """Names, types and places of a safetensors file's tensors."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(_MAX_HEADER_BYTES, size - 8):
            raise DocumentError(path, "is not a safetensors file, or was cut short")
        header = stream.read(length)
    entries = _object(path, header)
    ends = [
        entry["data_offsets"][1]
        for entry in entries.values()
        if isinstance(entry, dict) and isinstance(entry.get("data_offsets"), list)
    ]
    if max(ends, default=0) != size - 8 - length:
        raise DocumentError(path, "is not a whole safetensors file: it was cut short")
    return header


def quiet_transformers() -> Any:
    """The library, without bars and warnings of its own."""
    import transformers  # noqa: PLC0415 - the extra `language`

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def tokenizer(found: Checkpoint) -> Any:
    """The checkpoint's tokenizer. Raises DocumentError where it cannot be read."""
    transformers = quiet_transformers()
    try:
        made = transformers.AutoTokenizer.from_pretrained(
            str(found.folder), local_files_only=True, trust_remote_code=False, use_fast=True
        )
    except Exception as error:  # transformers raises dozens of classes
        raise _unreadable(found, "tokenizer", error) from None
    return made


def causal_model(found: Checkpoint, dtype: torch.dtype) -> Any:
    """The causal language model. Raises DocumentError for a checkpoint of another kind."""
    return _load(quiet_transformers().AutoModelForCausalLM, found, dtype, "causal language model")


def text_encoder(found: Checkpoint) -> Any:
    """A model that gives each token of a text a vector (a BERT, say)."""
    return _load(quiet_transformers().AutoModel, found, torch.float32, "text encoder")


def _load(kind: Any, found: Checkpoint, dtype: torch.dtype, what: str) -> Any:
    try:
        model, told = kind.from_pretrained(
            str(found.folder),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            dtype=dtype,
        )
    except Exception as error:
        raise _unreadable(found, what, error) from None
    tied = getattr(model, "_tied_weights_keys", None) or ()
    ours = () if not getattr(model.config, "tie_word_embeddings", False) else tied
    absent = sorted(set(told["missing_keys"]) - set(ours))
    # A pooler is no part of a token's vector: encoders are often saved without it.
    if absent := [name for name in absent if not name.startswith("pooler.")]:
        raise DocumentError(
            found.folder, f"is no whole {what}: it lacks {len(absent)} weights, as {absent[0]}"
        )
    return model


def _unreadable(found: Checkpoint, what: str, error: Exception) -> DocumentError:
    said = " ".join(str(error).split())[:200]
    return DocumentError(found.folder, f"cannot be read as a {what}: {said}")
