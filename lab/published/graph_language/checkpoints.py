"""Language models from local folders: nothing is downloaded, no code from a folder is run.

A randomly initialised model serves for trying the pipeline where no pre-trained weights are at
hand.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.errors import DocumentError
from lab.published.graph_language.texts import CLOSE, OPEN
from lab.published.networks import seeded

UNKNOWN, END, PADDING = "<unk>", "<end>", "<pad>"
_CONFIGURATIONS = ("config.json", "tokenizer.json", "tokenizer_config.json")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder with a Hugging Face checkpoint."""

    folder: Path
    digest: str
    """Of its configuration, its tokenizer and its weights' names and sizes: weights can have tens
    of gigabytes."""


def checkpoint(folder: Path) -> Checkpoint:
    """Check a folder. Raises DocumentError: absent, a file missing, code, no safetensors."""
    if not folder.is_dir():
        raise DocumentError(
            folder, "is not a folder",
            hint="name a folder with a Hugging Face checkpoint; nothing is downloaded",
        )  # fmt: skip
    digest = hashlib.sha256()
    for name in _CONFIGURATIONS:
        path = folder / name
        if not path.is_file():
            raise DocumentError(folder, f"is not a Hugging Face checkpoint: it has no {name}")
        content = path.read_bytes()
        if b'"auto_map"' in content:
            raise DocumentError(path, "asks for code from its folder, which Berth never runs")
        digest.update(content)
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise DocumentError(
            folder, "has no weights as safetensors",
            hint="other formats can run code when they are read: convert them where you trust them",
        )  # fmt: skip
    digest.update(str([(path.name, path.stat().st_size) for path in weights]).encode())
    return Checkpoint(folder.resolve(), digest.hexdigest())


def quiet_transformers() -> Any:
    """Return the library, without its bars and warnings."""
    import transformers  # noqa: PLC0415 - the extra `language`

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def tokenizer(source: Checkpoint) -> Any:
    """Return the checkpoint's tokenizer. Raises DocumentError where it cannot be read."""
    return _read(quiet_transformers().AutoTokenizer, source, "tokenizer", use_fast=True)


def causal_model(source: Checkpoint, dtype: torch.dtype) -> Any:
    """Return the causal language model. Raises DocumentError for a checkpoint of another kind."""
    model, loading = _read(
        quiet_transformers().AutoModelForCausalLM, source, "causal language model",
        use_safetensors=True, output_loading_info=True, dtype=dtype,
    )  # fmt: skip
    tied = set()
    if getattr(model.config, "tie_word_embeddings", False):
        tied = set(getattr(model, "_tied_weights_keys", None) or ())
    if absent := sorted(set(loading["missing_keys"]) - tied):
        raise DocumentError(
            source.folder,
            f"is no whole causal language model: it lacks {len(absent)} weights, as {absent[0]}",
        )
    return model


def _read(kind: Any, source: Checkpoint, name: str, **options: Any) -> Any:
    try:
        return kind.from_pretrained(
            str(source.folder), local_files_only=True, trust_remote_code=False, **options
        )
    except Exception as error:  # transformers raises dozens of classes
        reason = " ".join(str(error).split())[:200]
        raise DocumentError(source.folder, f"cannot be read as a {name}: {reason}") from None


class RandomModel(Document):
    """Size of a randomly initialised causal language model, whose vocabulary is that of the texts.

    It has read nothing: what it predicts it has learnt from the latencies alone.
    """

    layers: int = Field(default=4, ge=1, le=64)
    width: int = Field(default=128, ge=8, le=4096, multiple_of=8)
    heads: int = Field(default=4, ge=1, le=64)


def random_folder(out: Path, size: RandomModel, texts: Iterable[str], seed: int) -> Path:
    """Return the folder in ``out`` of a random model, written where it is not there yet."""
    vocabulary = sorted(set(texts))
    depends_on = json.dumps([size.model_dump(mode="json"), vocabulary, seed])
    folder = out / f"random-{hashlib.sha256(depends_on.encode()).hexdigest()[:12]}"
    if not (folder / "model.safetensors").is_file():
        write_random(folder, size, vocabulary, seed)
    return folder


def write_random(folder: Path, size: RandomModel, texts: Iterable[str], seed: int) -> None:
    """Write a random model as ``folder``; its weights come last."""
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
    """Return a tokenizer of words, single digits and single marks."""
    import tokenizers  # noqa: PLC0415
    import transformers  # noqa: PLC0415
    from tokenizers import models, pre_tokenizers  # noqa: PLC0415

    split = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]
    )
    marks = [*"0123456789.-e", OPEN, CLOSE]
    words = {word for text in texts for word, _ in split.pre_tokenize_str(text)}
    names = [UNKNOWN, END, PADDING, *marks, *sorted(words - set(marks))]
    splitter = tokenizers.Tokenizer(
        models.WordLevel({name: n for n, name in enumerate(names)}, unk_token=UNKNOWN)
    )
    splitter.pre_tokenizer = split
    splitter.add_special_tokens([UNKNOWN, END, PADDING])
    splitter.add_tokens([OPEN, CLOSE])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=splitter, unk_token=UNKNOWN, eos_token=END, pad_token=PADDING
    )
