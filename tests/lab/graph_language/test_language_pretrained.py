"""Checkpoints by path: what is not one is refused in a sentence, and nothing in it is run."""

from __future__ import annotations

import importlib.util
import json
import shutil

import pytest

pytest.importorskip("torch", reason="needs the extra `language`")

import torch

from berth.pilot.errors import DocumentError, ToolMissing
from lab.published.graph_language import checkpoints
from lab.published.graph_language.language_model import Adapter, GraphLanguage


@pytest.fixture
def folder(checkpoint_folder, tmp_path):
    return shutil.copytree(checkpoint_folder, tmp_path / "copy")


def refused(folder) -> str:
    with pytest.raises(DocumentError) as caught:
        checkpoints.checkpoint(folder)
    return caught.value.message


def test_what_is_no_folder_is_never_downloaded(tmp_path) -> None:
    with pytest.raises(DocumentError, match="is not a folder") as caught:
        checkpoints.checkpoint(tmp_path / "meta-llama" / "Llama-3-8B")
    assert "nothing is downloaded" in (caught.value.hint or "")


def test_an_empty_folder_is_not_a_checkpoint(tmp_path) -> None:
    assert "it has no config.json" in refused(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_each_file_that_is_needed_is_named(folder, name) -> None:
    (folder / name).unlink()
    assert f"it has no {name}" in refused(folder)


def test_pickled_weights_are_refused(folder) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "pytorch_model.bin, which can run code" in refused(folder)


def test_no_weights_at_all(folder) -> None:
    (folder / "model.safetensors").unlink()
    assert "has no weights" in refused(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_code_in_the_folder_is_never_asked_for(folder, name) -> None:
    config = json.loads((folder / name).read_text())
    config["auto_map"] = {"AutoModelForCausalLM": "evil.Model"}
    (folder / name).write_text(json.dumps(config))
    assert "which Berth never runs" in refused(folder)


def test_weights_cut_short(folder) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    assert "is not a whole safetensors file" in refused(folder)


def test_weights_that_are_something_else(folder) -> None:
    (folder / "model.safetensors").write_bytes(b"not tensors")
    assert "is not a whole safetensors file" in refused(folder)


def test_an_index_may_not_lead_elsewhere(folder) -> None:
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"a": "../../etc/passwd.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "names '../../etc/passwd.safetensors'" in refused(folder)


def test_a_config_that_is_no_object(folder) -> None:
    (folder / "config.json").write_text("[1]")
    assert "is not a JSON object" in refused(folder)


def test_a_model_type_that_is_unknown(folder) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["model_type"] = "nonsense"
    (folder / "config.json").write_text(json.dumps(config))
    found = checkpoints.checkpoint(folder)
    with pytest.raises(DocumentError, match="cannot be read as a causal language model"):
        checkpoints.causal_model(found, torch.float32)


def test_another_kind_of_model_is_not_filled_up_at_random(folder) -> None:
    """A text encoder has no head that writes: it is refused, not given random weights."""
    transformers = pytest.importorskip("transformers")
    found = checkpoints.checkpoint(folder)
    config = transformers.AutoConfig.from_pretrained(str(found.folder))
    transformers.LlamaModel(config).save_pretrained(str(folder))
    with pytest.raises(DocumentError, match=r"lacks 1 weights, as lm_head\.weight"):
        checkpoints.causal_model(checkpoints.checkpoint(folder), torch.float32)


def test_a_tokenizer_without_an_end_cannot_write(folder) -> None:
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.pop("eos_token")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    found = checkpoints.checkpoint(folder)
    with pytest.raises(DocumentError, match="without an end of text"):
        GraphLanguage(found, Adapter(), torch.float32)


def test_the_digest_tells_checkpoints_apart(folder, checkpoint_folder) -> None:
    same = checkpoints.checkpoint(checkpoint_folder).digest
    assert checkpoints.checkpoint(folder).digest == same
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 0.1}))
    assert checkpoints.checkpoint(folder).digest != same


def test_without_the_extra_its_command_is_named(monkeypatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "peft" else there(name)
    )
    with pytest.raises(ToolMissing, match="peft is not available") as caught:
        checkpoints.require_language("GNN + language model")
    assert caught.value.hint == "pip install 'berth[language]'"
