"""Local Hugging Face checkpoints: a folder, never a download, never code or pickles from it; and a
randomly initialised one for trying the pipeline where no pre-trained weights are at hand."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.errors import DocumentError, ToolMissing
from lab.published.graph_language.texts import CLOSE, OPEN
from lab.published.networks import seeded

CONFIG, TOKENIZER, TOKENIZER_CONFIG = "config.json", "tokenizer.json", "tokenizer_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
UNKNOWN, END, PADDING = "<unk>", "<end>", "<pad>"
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")


def require_language(needed_for: str) -> None:
    """Check the extra. Raises ToolMissing where the extra ``language`` is not installed."""
    for module in ("transformers", "peft", "safetensors", "tokenizers"):
        if importlib.util.find_spec(module) is None:
            raise ToolMissing(module, needed_for=needed_for, hint="pip install 'berth[language]'")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder that was checked."""

    folder: Path
    digest: str
    """Of its configuration, tokenizer and the weights' names and shapes (not each weight: these
    files have tens of gigabytes)."""


def checkpoint(folder: Path) -> Checkpoint:
    """Check a folder. Raises DocumentError: absent, no weights as safetensors, code of its own."""
    if not folder.is_dir():
        raise DocumentError(
            folder, "is not a folder",
            hint="name a folder with a Hugging Face checkpoint; nothing is downloaded",
        )  # fmt: skip
    digest = hashlib.sha256()
    for name in (CONFIG, TOKENIZER, TOKENIZER_CONFIG):
        path = folder / name
        if not path.is_file():
            if name != TOKENIZER_CONFIG:
                raise DocumentError(folder, f"is not a Hugging Face checkpoint: it has no {name}")
            continue
        raw = path.read_bytes()
        if "auto_map" in _object(path, raw):
            raise DocumentError(path, "asks for code from its folder, which Berth never runs")
        digest.update(raw)
    for path in _weights(folder):
        digest.update(_names_and_shapes(path).encode())
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
            folder, f"has its weights as {pickled[0]}, which can run code when it is read",
            hint=f"convert it to {WEIGHTS} where you trust it",
        )  # fmt: skip
    raise DocumentError(folder, f"has no weights: neither {WEIGHTS} nor {INDEX}")


def _object(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DocumentError(path, "is not a JSON object")
    return found


def _names_and_shapes(path: Path) -> str:
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - the extra `language`

    try:
        with safe_open(path, framework="numpy") as file:
            slices = {name: file.get_slice(name) for name in sorted(file.keys())}
            return json.dumps({
                name: [one.get_dtype(), *one.get_shape()] for name, one in slices.items()
            })  # fmt: skip
    except SafetensorError as error:
        raise DocumentError(path, f"is not a whole safetensors file: {error}") from None


def quiet_transformers() -> Any:
    """Return the library, without bars and warnings of its own."""
    import transformers  # noqa: PLC0415 - the extra `language`

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def tokenizer(found: Checkpoint) -> Any:
    """Return the checkpoint's tokenizer. Raises DocumentError where it cannot be read."""
    return _read(quiet_transformers().AutoTokenizer, found, "tokenizer", use_fast=True)


def causal_model(found: Checkpoint, dtype: torch.dtype) -> Any:
    """Return the causal language model. Raises DocumentError for a checkpoint of another kind."""
    return _whole(quiet_transformers().AutoModelForCausalLM, found, dtype, "causal language model")


def text_encoder(found: Checkpoint) -> Any:
    """Return a model that gives each token of a text a vector (a BERT, say)."""
    return _whole(quiet_transformers().AutoModel, found, torch.float32, "text encoder")


def _whole(kind: Any, found: Checkpoint, dtype: torch.dtype, what: str) -> Any:
    model, about = _read(
        kind, found, what, use_safetensors=True, output_loading_info=True, dtype=dtype
    )
    tied = getattr(model, "_tied_weights_keys", None) or ()
    ours = () if not getattr(model.config, "tie_word_embeddings", False) else tied
    # A pooler is no part of a token's vector: encoders are often saved without it.
    absent = sorted(
        name for name in set(about["missing_keys"]) - set(ours) if not name.startswith("pooler.")
    )
    if absent:
        raise DocumentError(
            found.folder, f"is no whole {what}: it lacks {len(absent)} weights, as {absent[0]}"
        )
    return model


def _read(kind: Any, found: Checkpoint, what: str, **options: Any) -> Any:
    folder = str(found.folder)
    try:
        return kind.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, **options
        )
    except Exception as error:  # transformers raises dozens of classes
        reason = " ".join(str(error).split())[:200]
        raise DocumentError(found.folder, f"cannot be read as a {what}: {reason}") from None


class RandomModel(Document):
    """Size of a randomly initialised causal language model: it has read nothing, and what it
    predicts it has learnt from the latencies alone. The vocabulary is that of the texts."""

    layers: int = Field(default=4, ge=1, le=64)
    width: int = Field(default=128, ge=8, le=4096, multiple_of=8)
    heads: int = Field(default=4, ge=1, le=64)


def random_folder(out: Path, size: RandomModel, texts: Sequence[str], seed: int) -> Path:
    """Return a folder in ``out``, named by all that it depends on; written where it is not
    there."""
    wanted = json.dumps([size.model_dump(mode="json"), sorted(set(texts)), seed])
    folder = out / f"random-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    if not folder.is_dir():
        out.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=out, prefix=f".{folder.name}."))
        write_random(made, size, texts, seed)
        made.chmod(0o755)
        made.rename(folder)
    return folder


def write_random(folder: Path, size: RandomModel, texts: Iterable[str], seed: int) -> None:
    """Write it as ``folder``; the vocabulary is the words and single digits of ``texts``."""
    transformers, words = quiet_transformers(), _tokenizer(texts)
    config = transformers.LlamaConfig(
        vocab_size=len(words), hidden_size=size.width, intermediate_size=4 * size.width,
        num_hidden_layers=size.layers, num_attention_heads=size.heads,
        num_key_value_heads=size.heads, max_position_embeddings=1024, tie_word_embeddings=False,
        bos_token_id=None, eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id,
    )  # fmt: skip
    with seeded(seed):
        model = transformers.LlamaForCausalLM(config)
    folder.mkdir(parents=True, exist_ok=True)
    words.save_pretrained(str(folder))
    model.save_pretrained(str(folder), safe_serialization=True)


def _tokenizer(texts: Iterable[str]) -> Any:
    """Words, each digit and each mark alone."""
    import tokenizers  # noqa: PLC0415
    import transformers  # noqa: PLC0415
    from tokenizers import models, pre_tokenizers  # noqa: PLC0415

    split = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]
    )
    marks = [*"0123456789.-e", OPEN, CLOSE]
    words = {word for text in texts for word, _ in split.pre_tokenize_str(text)}
    names = [UNKNOWN, END, PADDING, *marks, *sorted(words - set(marks))]
    made = tokenizers.Tokenizer(
        models.WordLevel({name: n for n, name in enumerate(names)}, unk_token=UNKNOWN)
    )
    made.pre_tokenizer = split
    made.add_special_tokens([UNKNOWN, END, PADDING])
    made.add_tokens([OPEN, CLOSE])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token=UNKNOWN, eos_token=END, pad_token=PADDING
    )
