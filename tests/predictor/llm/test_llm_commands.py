"""``berth predict CONFIG.json``: a ranking, and one sentence with status 2 for bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import toy_profiles
from command_line import run
from toy_configs import LLAMA

from berth.pilot.documents import to_json
from berth.predictor.families.language_model.predictor import AS_SERVED, LlmPredictor
from berth.predictor.hardware import platforms
from berth.predictor.hardware.unit import units


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "llama" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(LLAMA))
    return path


def test_every_accelerator_is_ranked(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--batch", 8, "--tokens", "1024,128", "--json")
    assert run("predict", config, *arguments) == 0
    data = json.loads(capsys.readouterr().out)
    found = data["predictions"]
    assert {p["platform"] for p in found} == set(
        units(platforms.shipped(), LlmPredictor.load().accelerators)
    )
    assert data["parameters"] == pytest.approx(8.03e9, rel=0.01)
    order = [
        (
            bool(p["abstained"]) or p["basis"] == "prior",
            not p["fits"],
            -p["tokens_per_s"]["mid"] if p["fits"] else 0,
        )
        for p in found
    ]
    assert [o[:2] for o in order] == sorted(o[:2] for o in order)
    assert [o for o in order if not o[1]] == sorted(o for o in order if not o[1])
    for p in found:
        if not p["fits"]:
            assert p["tokens_per_s"] is None
            assert "does not fit" in p["abstained"]
            continue
        for key in ("tokens_per_s", "ttft_s", "tpot_s", "gpu_memory_bytes"):
            if key in {"ttft_s", "tpot_s"} and p[f"{key[:4]}_abstained"]:
                assert p[key] is None
                continue
            assert 0 < p[key]["low"] <= p[key]["mid"] <= p[key]["high"]
        narrow = p["tokens_per_s"]["mid"] <= 3.01 * AS_SERVED * p["tokens_per_s"]["low"]
        assert p["abstained"] is not None or p["basis"] != "prior" or narrow
    assert "energy_j_per_token" in data["unverified"]


def test_a_table_says_what_is_not_verified(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", config, "--platform", "h100-80gb") == 0
    out = capsys.readouterr().out
    assert "8.03 billion" in out
    assert "unverified" in out
    assert "a100" not in out


def test_four_bits_need_less_and_read_faster(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for more in ((), ("--quantise", "int4")):
        assert run("predict", config, "--platform", "a100-40gb", "--json", *more) == 0
        found += json.loads(capsys.readouterr().out)["predictions"]
    assert found[1]["gpu_memory_bytes"]["mid"] < 0.5 * found[0]["gpu_memory_bytes"]["mid"]
    assert found[1]["tokens_per_s"]["mid"] > found[0]["tokens_per_s"]["mid"]


def test_options_of_the_server_change_what_is_resident_and_computed(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def served(serving: str) -> dict[str, Any]:
        arguments = ("--batch", 64, "--tokens", "4096,128", "--serving", serving, "--json")
        assert run("predict", config, "--platform", "h100-80gb", *arguments) == 0
        return dict(json.loads(capsys.readouterr().out)["predictions"][0])

    usual = served("max_num_seqs=1024")
    assert served("gpu_memory_utilization=0.4")["resident_sequences"] < usual["resident_sequences"]
    slower, faster = served("max_num_seqs=4"), served("prefix_hit_rate=0.9")
    assert slower["tokens_per_s"]["mid"] < usual["tokens_per_s"]["mid"]
    assert usual["tokens_per_s"]["mid"] < faster["tokens_per_s"]["mid"]
    larger = served("max_num_batched_tokens=65536")
    assert larger["gpu_memory_least_bytes"] > usual["gpu_memory_least_bytes"]
    assert not served("gpu_memory_utilization=0.1")["fits"]


def test_an_unknown_framework_abstains_everywhere(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", config, "--framework", "ours", "--json") == 0
    found = json.loads(capsys.readouterr().out)["predictions"]
    assert all(p["abstained"] for p in found)
    assert {p["basis"] for p in found} == {"prior"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--platform", "h100-80g"), "did you mean"),
        (("--size", "5"), "--size means nothing for a language-model service"),
        (("--parallel", "tensor=64,pipeline=64"), "stages"),
        (("--parallel", "expert=2,tensor=2"), "experts"),
        (("--batch", "0"), "batch"),
        (("--quantise", "fp3"), "quantise"),
        (("--quantise", "cache=fp3"), "there are fp16"),
        (("--parallel", "sideways=2"), "'sideways'"),
        (("--parallel", "tensor=0"), "not a whole number"),
        (("--tokens", "1024"), "is not IN,OUT"),
        (("--tokens", "1024,x"), "not a whole number"),
        (("--serving", "num_speculative_tokens=3"), "speculative decoding is not predicted"),
        (("--serving", "request_rate=3"), "an arrival rate is not predicted"),
        (("--serving", "disaggregated=1"), "different GPUs are not predicted"),
        (("--serving", "max_seqs=3"), "'max_seqs'"),
        (("--serving", "max_num_seqs=many"), "'many' is not a number"),
        (("--serving", "gpu_memory_utilization=1.2"), "memory_share"),
        (("--serving", "prefix_hit_rate=1"), "prefix_hit_rate"),
        (("--parallel", "tensor=5"), "cannot split 32 heads over 5"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(
    config: Path, arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", config, *arguments) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "raw",
    [{"model_type": "novel"}, {"model_type": "llama", "n_experts": 8}, {"architectures": []}],
)
def test_an_odd_configuration_exits_with_two(
    tmp_path: Path, raw: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(raw))
    assert run("predict", path) == 2
    assert "config.json" in capsys.readouterr().err


def test_options_of_language_models_do_not_go_with_profiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "profile.json"
    path.write_text(to_json(toy_profiles.profile()))
    assert run("predict", path, "--parallel", "tensor=2") == 2
    assert "--parallel tensor means nothing for a program's profile" in capsys.readouterr().err


def test_a_sites_price_gives_the_price_of_tokens(
    config: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "platforms"
    folder.mkdir()
    raw = json.loads((platforms.SHIPPED / "h100-80gb.json").read_text())
    raw |= {"name": "ours", "price_per_hour": 3.6, "accelerator": "h100-sxm-80gb"}
    (folder / "ours.json").write_text(json.dumps(raw))
    monkeypatch.setenv("BERTH_PLATFORMS", str(folder))
    assert run("predict", config, "--platform", "ours", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["predictions"]
    each = found["price_per_million_tokens"]["mid"]
    assert each == pytest.approx(3.6 / 3600 * 1e6 / found["tokens_per_s"]["mid"])


def answered(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Return the sentences above the table."""
    assert run("predict", *arguments) == 0
    return capsys.readouterr().out.split("\n\n")[1]


def test_an_amount_has_its_time_and_says_where_prices_go(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (config, "--batch", 64, "--tokens", "1000,1000", "--platform", "h100-80gb")
    said = answered(capsys, *arguments, "--amount", "1e9 tokens")
    assert "1e+09 tokens take" in said
    assert "price_per_hour" in said
    assert run("predict", *arguments, "--amount", "500000 requests", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    (row,) = data["predictions"]
    assert data["tokens"] == 1e9
    assert row["job_s"]["mid"] == pytest.approx(1e9 / row["tokens_per_s"]["mid"])


def test_whether_a_load_fits_at_once_is_said_first(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = ("--parallel", "tensor=2", "--platform", "l40s-48gb", "--tokens", "32000,768")
    few = answered(capsys, config, *two, "--batch", 4)
    assert few.startswith("4 requests of 32,768 tokens at once on 2 x l40s-48gb: yes")
    many = answered(capsys, config, *two, "--batch", 64)
    assert "64 requests of 32,768 tokens at once on 2 x l40s-48gb: no, " in many
    assert "at a time" in many


def test_a_model_is_not_split_over_slices(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slices = ("--platform", "h100-mig-3g.40gb", "--batch", 16)
    said = answered(capsys, config, *slices, "--parallel", "tensor=4")
    assert "no; a program uses one slice" in said
    replicas = answered(capsys, config, *slices, "--parallel", "data=4")
    assert "one slice" not in replicas
