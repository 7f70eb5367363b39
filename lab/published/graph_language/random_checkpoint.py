"""A randomly initialised causal language model as a checkpoint folder.

For trying the pipeline where no pre-trained weights are at hand, and for its tests. It has read
nothing: what it predicts, it has learnt from the latencies alone.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from berth.pilot.documents import Document
from lab.published.graph_language.pretrained import quiet_transformers
from lab.published.graph_language.prompts import CLOSE, OPEN
from lab.published.relative_networks.seeded import seeded

UNKNOWN, END, PADDING = "<unk>", "<end>", "<pad>"


class RandomModel(Document):
    """Its size; the vocabulary is that of the training texts."""

    layers: int = Field(default=4, ge=1, le=64)
    width: int = Field(default=128, ge=8, le=4096, multiple_of=8)
    heads: int = Field(default=4, ge=1, le=64)


def random_folder(out: Path, size: RandomModel, texts: Sequence[str], seed: int) -> Path:
    """A folder in ``out``, named by all that it depends on; written where it is not there."""
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
    transformers = quiet_transformers()
    words = _tokenizer(texts)
    config = transformers.LlamaConfig(
        vocab_size=len(words),
        hidden_size=size.width,
        intermediate_size=4 * size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        max_position_embeddings=1024,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
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
