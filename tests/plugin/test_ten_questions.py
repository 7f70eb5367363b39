"""Ten questions of people who plan: the first sentences answer them, in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import run
from small_models import convolutional
from toy_configs import LLAMA

from berth.plugin.site.load import DEMO_FILE

DRAFT = {**LLAMA, "architectures": ["LlamaForCausalLMEagle3"]}
LARGE = {**LLAMA, "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64,
         "num_hidden_layers": 1200, "max_position_embeddings": 131_072}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "large.json").write_text(json.dumps(LARGE))
    (tmp_path / "net.onnx").write_bytes(convolutional(blocks=2, channels=8).SerializeToString())
    return tmp_path


QUESTIONS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "Do 64 users with 32k tokens fit on two L40S at once?": (
        "config.json",
        ("--batch", "64", "--tokens", "32000,768", "--parallel", "tensor=2", "--platform",
         "l40s-48gb"),
        ("64 requests of 32,768 tokens at once on 2 x l40s-48gb: no, ", " at a time"),
    ),
    "Does one user with the longest context fit on one H100?": (
        "config.json",
        ("--tokens", "8000,128", "--platform", "h100-80gb"),
        ("1 request of 8,128 tokens at once on h100-80gb: yes; ", " tokens/s"),
    ),
    "What is cheapest for 1e9 tokens at our site?": (
        "config.json",
        ("--batch", "64", "--amount", "1e9 tokens", "--site", str(DEMO_FILE)),
        ("1e+09 tokens take ", "Cheapest for 1e+09 tokens: ", " USD."),
    ),
    "And without prices?": (
        "config.json",
        ("--batch", "64", "--amount", "1e9 tokens", "--platform", "h100-80gb"),
        ("1e+09 tokens take ", "No platform has a price: give price_per_hour", "--site"),
    ),
    "How long do 50,000 requests take?": (
        "config.json",
        ("--batch", "64", "--tokens", "1000,1000", "--amount", "50000 requests", "--platform",
         "h100-80gb"),
        ("1e+08 tokens take ",),
    ),
    "Can four MIG slices share the model?": (
        "config.json",
        ("--parallel", "tensor=4", "--platform", "h100-mig-3g.40gb"),
        ("no; a program uses one slice",),
    ),
    "Does it fit on a P100?": (
        "config.json",
        ("--platform", "p100-16gb"),
        ("on p100-16gb: no; does not fit: one request needs up to ", " GiB on a GPU and gets 16."),
    ),
    "How many at a time do two copies serve?": (
        "config.json",
        ("--batch", "64", "--serving", "max_num_seqs=20", "--parallel", "data=2", "--platform",
         "h100-80gb"),
        ("64 requests of 1,152 tokens at once on 2 x h100-80gb: no, 40 at a time; ",),
    ),
    "And of a trillion parameters, longer than it was made for?": (
        "large.json",
        ("--tokens", "200000,128", "--platform", "h100-80gb"),
        ("1,030 billion parameters", "made for at most 131,072 tokens of a request"),
    ),
    "How fast is a server that nobody measured?": (
        "config.json",
        ("--framework", "homemade", "--platform", "h100-80gb"),
        ("on h100-80gb: yes; how fast is not known.",),
    ),
    "How long does training on four GPUs take, and what is a step?": (
        "net.onnx",
        ("--mode", "training", "--batch", "256", "--parallel", "data=4", "--platform",
         "a100-80gb", "--amount", "300 epochs of 1251 steps"),
        ("a step is of all 4 together, 4 x 256 samples", "A job does 375300 such steps", "JOB"),
    ),
    "How long do 1,000 runs of an ONNX model take?": (
        "net.onnx",
        ("--batch", "8", "--platform", "a100-80gb", "--amount", "1000 steps"),
        ("JOB",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_answer_is_in_words(
    question: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, words, said = QUESTIONS[question]
    assert run("predict", folder / file, *words) == 0
    shown = capsys.readouterr().out
    assert [part for part in said if part not in shown] == []


def test_a_training_jobs_total_is_its_steps_of_all_gpus(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--mode", "training", "--batch", "256", "--platform", "a100-80gb", "--json")
    total = []
    for more in ((), ("--parallel", "data=4", "--amount", "300 epochs of 1251 steps")):
        assert run("predict", folder / "net.onnx", *words, *more) == 0
        (row,) = json.loads(capsys.readouterr().out)["predictions"]
        total.append(row)
    alone, together = total
    assert together["step_s"]["mid"] > alone["step_s"]["mid"]
    assert together["job_s"]["mid"] == pytest.approx(375_300 * together["step_s"]["mid"])


def test_a_draft_is_told_from_its_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "draft.json").write_text(json.dumps(DRAFT))
    assert run("predict", folder / "draft.json") == 2
    assert "proposes tokens to another model" in capsys.readouterr().err
