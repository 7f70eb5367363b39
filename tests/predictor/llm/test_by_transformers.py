"""A family that the table has not is counted by transformers in a child process, or refused."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model import by_transformers
from berth.predictor.families.language_model.by_transformers import (
    COUNTED,
    count_by_transformers,
    counted_before,
)
from berth.predictor.families.language_model.config import from_mapping, with_count

REPLY: dict[str, Any] = {
    "weights": [["embedding", "embed", 1000], ["attention", "layers.0.q", 500]],
    "cache": [[64, None, 0, 2, 16]], "sizes": {"hidden": 10, "heads": 2}, "latent": False,
}  # fmt: skip
NEW = {"model_type": "novel", "architectures": ["NovelForCausalLM"]}


class Done:
    def __init__(self, stdout: bytes, returncode: int = 0) -> None:
        self.stdout, self.returncode = stdout, returncode


def replied(monkeypatch: pytest.MonkeyPatch, stdout: bytes) -> None:
    monkeypatch.setattr(by_transformers, "is_installed", lambda: True)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: Done(stdout))


def test_the_childs_count_is_stored_with_the_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replied(monkeypatch, json.dumps(REPLY).encode())
    raw = with_count(dict(NEW), "config.json")
    model = from_mapping(raw, source="config.json", name="m")
    assert (model.parameters, model.kv_heads, model.head_dim) == (1500, 2, 16)
    assert model.cached_values(10) == 640


@pytest.mark.parametrize(
    ("stdout", "said"),
    [(b"", "fail"), (b"[1]", "no answer"), (b'{"problem": "LookupError: no novel"}', "no novel"),
     (b'{"weights": [], "cache": [], "sizes": {}, "latent": false}', "no count"),
     (json.dumps({**REPLY, "weights": [["x", "y", -1]]}).encode(), "no count")],
)  # fmt: skip
def test_a_child_that_fails_or_answers_nonsense_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, stdout: bytes, said: str
) -> None:
    replied(monkeypatch, stdout)
    with pytest.raises(DocumentError, match=said):
        count_by_transformers(NEW, "config.json")


def test_processor_time_decides_and_not_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: Done(b"", returncode=-signal.SIGXCPU))
    with pytest.raises(DocumentError, match="80 s of processor time"):
        count_by_transformers(NEW, "config.json")


def test_a_child_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*_: Any, **options: Any) -> None:
        raise subprocess.TimeoutExpired("child", options["timeout"])

    monkeypatch.setattr(subprocess, "run", hangs)
    with pytest.raises(DocumentError, match="the machine is busy"):
        count_by_transformers(NEW, "config.json")


@pytest.mark.parametrize("broken", [None, {}, {**REPLY, "cache": [[1]]}, {**REPLY, "sizes": [1]}])
def test_a_stored_count_that_was_changed_is_refused(broken: Any) -> None:
    with pytest.raises(DocumentError, match="no count"):
        counted_before(broken, "novel", "config.json")
    with pytest.raises(DocumentError):
        from_mapping({**NEW, COUNTED: broken}, source="config.json", name="m")


@pytest.mark.slow
def test_transformers_counts_in_a_child_without_the_configurations_code(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    mark = tmp_path / "mark"
    (tmp_path / "evil.py").write_text(f"open({str(mark)!r}, 'w')")
    raw = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 100,
           "n_positions": 32, "auto_map": {"AutoModelForCausalLM": "evil.M"}}  # fmt: skip
    counted = counted_before(count_by_transformers(raw, tmp_path / "config.json"), "gpt2", "c")
    ours = from_mapping(raw, source="config.json", name="m")
    assert sum(weight.count for weight in counted.weights) == ours.parameters
    assert [layer.per_token for layer in counted.cache] == [128, 128]
    assert not mark.exists()
    with pytest.raises(DocumentError, match="has no model type"):
        count_by_transformers(NEW, "config.json")


@pytest.mark.slow
def test_tokens_that_a_cache_compresses_count_by_its_rate(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    raw = {
        "model_type": "deepseek_v4",
        "num_hidden_layers": 2,
        "vocab_size": 100,
        "layer_types": ["heavily_compressed_attention", "compressed_sparse_attention"],
    }
    counted = counted_before(count_by_transformers(raw, tmp_path / "config.json"), "v4", "c")
    # One value of 512 for 128 tokens; for 4 tokens one of 512 and one of the index's 128.
    assert [(c.per_token, c.window) for c in counted.cache] == [(4, None), (160, None)]
