"""Checkpoints by path: what is not one is refused in a sentence, and nothing in it is run."""

from __future__ import annotations

import json
import shutil

import pytest

pytest.importorskip("torch", reason="needs the extra `language`")

import torch

from berth.pilot.errors import DocumentError
from lab.published.graph_language import checkpoints
from lab.published.graph_language.language_config import LanguageModelConfig
from lab.published.graph_language.language_model import GraphLanguage


@pytest.fixture
def folder(checkpoint_folder, tmp_path):
    return shutil.copytree(checkpoint_folder, tmp_path / "copy")


def refused(folder) -> str:
    with pytest.raises(DocumentError) as caught:
        checkpoints.checkpoint(folder)
    return f"{caught.value.message} {caught.value.hint}"


def change(path, **entries: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def test_what_is_no_checkpoint_is_never_downloaded(tmp_path, folder) -> None:
    assert "nothing is downloaded" in refused(tmp_path / "meta-llama" / "Llama-3-8B")
    for name in ("tokenizer.json", "config.json"):
        (folder / name).unlink()
        assert f"it has no {name}" in refused(folder)


def test_pickled_weights_are_refused(folder) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "has no weights as safetensors" in refused(folder)
    assert "can run code" in refused(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_code_in_the_folder_is_never_asked_for(folder, name) -> None:
    change(folder / name, auto_map={"AutoModelForCausalLM": "evil.Model"})
    assert "which Berth never runs" in refused(folder)


def cannot_be_read(folder) -> str:
    with pytest.raises(DocumentError) as caught:
        checkpoints.causal_model(checkpoints.checkpoint(folder), torch.float32)
    return caught.value.message


def test_what_transformers_cannot_read_is_refused_in_a_sentence(folder) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    assert "cannot be read as a causal language model" in cannot_be_read(folder)
    change(folder / "config.json", model_type="nonsense")
    assert "cannot be read as a causal language model" in cannot_be_read(folder)


def test_another_kind_of_model_is_not_filled_up_at_random(folder) -> None:
    """A text encoder has no head that writes: it is refused, not given random weights."""
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.from_pretrained(str(folder))
    transformers.LlamaModel(config).save_pretrained(str(folder))
    assert "lacks 1 weights, as lm_head.weight" in cannot_be_read(folder)


def test_a_tokenizer_without_an_end_cannot_write(folder) -> None:
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.pop("eos_token")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(DocumentError, match="without an end of text"):
        GraphLanguage(checkpoints.checkpoint(folder), LanguageModelConfig(path="here"))


def test_the_digest_tells_checkpoints_apart(folder, checkpoint_folder) -> None:
    same = checkpoints.checkpoint(checkpoint_folder).digest
    assert checkpoints.checkpoint(folder).digest == same
    change(folder / "config.json", rms_norm_eps=0.1)
    assert checkpoints.checkpoint(folder).digest != same
